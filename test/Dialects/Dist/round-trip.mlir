// RUN: heddle-opt %s --verify-roundtrip | FileCheck %s

// CHECK: dist.mesh @pod [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 4>]
dist.mesh @pod [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 4>]

// CHECK: dist.mesh @experts [#dist.axis<"data" = 4>, #dist.axis<"expert" = 2, factor of "data">]
dist.mesh @experts [#dist.axis<"data" = 4>, #dist.axis<"expert" = 2, factor of "data">]

// CHECK-LABEL: nn.func @move
nn.func @move(%x: tensor<8x4xf32>, %y: tensor<64xf32>) -> tensor<8x4xf32> {
  // CHECK: dist.reshard %{{.*}} from <{{\[\[}}"data"], []], unreduced []> to <{{\[\[}}], []], unreduced []> for "nn.linear" : tensor<8x4xf32>
  %0 = dist.reshard %x from <[["data"], []], unreduced []> to <[[], []], unreduced []> for "nn.linear" : tensor<8x4xf32>
  // CHECK: dist.reshard %{{.*}} from <{{\[\[}}], []], unreduced ["data", "seq"]> to <{{\[\[}}"data", "seq"], []], unreduced []> for "nn.set" : tensor<8x4xf32>
  %1 = dist.reshard %0 from <[[], []], unreduced ["data", "seq"]> to <[["data", "seq"], []], unreduced []> for "nn.set" : tensor<8x4xf32>
  // CHECK: dist.stack %{{.*}} from <{{\[\[}}]], unreduced ["data"]> to <{{\[\[}}"data"]], unreduced []> : tensor<64xf32> -> tensor<256xf32>
  %s = dist.stack %y from <[[]], unreduced ["data"]> to <[["data"]], unreduced []> : tensor<64xf32> -> tensor<256xf32>
  // CHECK: nn.map relu(%{{.*}}) {shardings = [#dist.sharding<{{\[\[}}"data"], []], unreduced []>]} : tensor<8x4xf32>
  %2 = nn.map relu(%1) {shardings = [#dist.sharding<[["data"], []], unreduced []>]} : tensor<8x4xf32>
  nn.return %2 : tensor<8x4xf32>
}

// States that are not in the device's memory.
nn.model @far family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // CHECK: nn.state @w.exp_avg role optimizer : tensor<100xf32> {memory = #nn<memory file>, parameter = "w"}
  nn.state @w role parameter : tensor<100xf32>
  nn.state @w.exp_avg role optimizer : tensor<100xf32> {parameter = "w", memory = #nn<memory file>}
  nn.bucket @exp_avg [@w.exp_avg] : tensor<128xf32>
  // CHECK-LABEL: nn.func @window
  nn.func @window(%x: tensor<64xf32>, %ids: tensor<2x5xi32>, %i: index) -> tensor<64xf32> {
    // CHECK: %[[START:.*]] = dist.fetch @exp_avg[64] {pending} : tensor<64xf32>
    %0 = dist.fetch @exp_avg[64] {pending} : tensor<64xf32>
    // CHECK: dist.wait %[[START]]
    %1 = dist.wait %0 : tensor<64xf32>
    // CHECK: %[[ROWS:.*]] = dist.fetch_rows @exp_avg[64] of 3 at %{{.*}} {pending} : tensor<2x5xi32> -> tensor<2x5x17xf32>
    %r0 = dist.fetch_rows @exp_avg[64] of 3 at %ids {pending} : tensor<2x5xi32> -> tensor<2x5x17xf32>
    // CHECK: dist.wait %[[ROWS]]
    %r1 = dist.wait %r0 : tensor<2x5x17xf32>
    // CHECK: dist.fetch_rows @exp_avg[64] of 3 at %{{.*}} first %{{.*}} {pending} : tensor<2x5xi32> -> tensor<2x5x17xf32>
    %r2 = dist.fetch_rows @exp_avg[64] of 3 at %ids first %i {pending} : tensor<2x5xi32> -> tensor<2x5x17xf32>
    %r3 = dist.wait %r2 : tensor<2x5x17xf32>
    // CHECK: %[[HOST:.*]] = dist.move %{{.*}} to_host {pending} : tensor<64xf32>
    %2 = dist.move %x to_host {pending} : tensor<64xf32>
    // CHECK: %[[THERE:.*]] = dist.wait %[[HOST]]
    %3 = dist.wait %2 : tensor<64xf32>
    // CHECK: dist.move %[[THERE]] to_device : tensor<64xf32>
    %4 = dist.move %3 to_device : tensor<64xf32>
    // CHECK: dist.store @exp_avg[0], %{{.*}} : tensor<64xf32>
    dist.store @exp_avg[0], %x : tensor<64xf32>
    // CHECK: dist.flush 0
    dist.flush 0
    nn.return %1 : tensor<64xf32>
  }
}

// A strategy: the order of its settings, and what is left out.
// CHECK-LABEL: nn.func @strategy
// CHECK-SAME: {{.*}}#dist.strategy<{batch = {global = 8, micro = 2, accumulate = 2, seq = 16}, precision = bf16, mesh = {data = 2, tensor = 1, pipe = 1, seq = 1}, zero = {stage = 1}, pipeline = {schedule = gpipe}, recompute = full, memory_budget = 1000, keep = [logits, h.0], target = sm_90, march = "x86-64-v3", threads = 3, optimizer = {type = Adam, lr = 1.000000e-04, beta1 = 5.000000e-01, beta2 = 6.000000e-01, eps = 1.250000e-01, weight_decay = 0.000000e+00, decoupled = false, gradient_clipping = 0.000000e+00, no_decay = bias$}, scheduler = {type = WarmupLR, params = "{}"}}>
nn.func @strategy() attributes {nn.value = #dist.strategy<{batch = {global = 8, micro = 2, accumulate = 2, seq = 16}, precision = bf16, threads = 3, march = "x86-64-v3", target = sm_90, recompute = full, pipeline = {schedule = gpipe}, zero = {stage = 1}, memory_budget = 1000, mesh = {data = 2, tensor = 1, pipe = 1, seq = 1}, optimizer = {type = Adam, lr = 1.0e-4, beta1 = 0.5, beta2 = 0.6, eps = 0.125, weight_decay = 0.0, decoupled = false, gradient_clipping = 0.0, no_decay = bias$}, scheduler = {type = WarmupLR, params = "{}"}, keep = ["logits", "h.0"]}>} {
  nn.return
}
