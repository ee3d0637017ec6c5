// RUN: heddle-opt %s --verify-roundtrip | FileCheck %s

// CHECK: dist.mesh @pod [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 4>]
dist.mesh @pod [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 4>]

// CHECK: dist.mesh @experts [#dist.axis<"data" = 4>, #dist.axis<"expert" = 2, factor of "data">]
dist.mesh @experts [#dist.axis<"data" = 4>, #dist.axis<"expert" = 2, factor of "data">]

// CHECK-LABEL: nn.func @move
nn.func @move(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  // CHECK: dist.reshard %{{.*}} from <{{\[\[}}"data"], []], unreduced []> to <{{\[\[}}], []], unreduced []> for "nn.linear" : tensor<8x4xf32>
  %0 = dist.reshard %x from <[["data"], []], unreduced []> to <[[], []], unreduced []> for "nn.linear" : tensor<8x4xf32>
  // CHECK: dist.reshard %{{.*}} from <{{\[\[}}], []], unreduced ["data", "seq"]> to <{{\[\[}}"data", "seq"], []], unreduced []> for "nn.set" : tensor<8x4xf32>
  %1 = dist.reshard %0 from <[[], []], unreduced ["data", "seq"]> to <[["data", "seq"], []], unreduced []> for "nn.set" : tensor<8x4xf32>
  // CHECK: nn.map relu(%{{.*}}) {shardings = [#dist.sharding<{{\[\[}}"data"], []], unreduced []>]} : tensor<8x4xf32>
  %2 = nn.map relu(%1) {shardings = [#dist.sharding<[["data"], []], unreduced []>]} : tensor<8x4xf32>
  nn.return %2 : tensor<8x4xf32>
}

// A strategy: the order of its settings, and what is left out.
// CHECK-LABEL: nn.func @strategy
// CHECK-SAME: {{.*}}#dist.strategy<{batch = {global = 8, micro = 2, accumulate = 2, seq = 16}, precision = bf16, mesh = {data = 2, tensor = 1, pipe = 1, seq = 1}, zero = {stage = 1}, pipeline = {schedule = gpipe}, recompute = full, memory_budget = 1000, keep = [logits, h.0], target = sm_90, march = "x86-64-v3", threads = 3, optimizer = {type = Adam, lr = 1.000000e-04, beta1 = 5.000000e-01, beta2 = 6.000000e-01, eps = 1.250000e-01, weight_decay = 0.000000e+00, decoupled = false, gradient_clipping = 0.000000e+00, no_decay = bias$}, scheduler = {type = WarmupLR, params = "{}"}}>
nn.func @strategy() attributes {nn.value = #dist.strategy<{batch = {global = 8, micro = 2, accumulate = 2, seq = 16}, precision = bf16, threads = 3, march = "x86-64-v3", target = sm_90, recompute = full, pipeline = {schedule = gpipe}, zero = {stage = 1}, memory_budget = 1000, mesh = {data = 2, tensor = 1, pipe = 1, seq = 1}, optimizer = {type = Adam, lr = 1.0e-4, beta1 = 0.5, beta2 = 0.6, eps = 0.125, weight_decay = 0.0, decoupled = false, gradient_clipping = 0.0, no_decay = bias$}, scheduler = {type = WarmupLR, params = "{}"}, keep = ["logits", "h.0"]}>} {
  nn.return
}
