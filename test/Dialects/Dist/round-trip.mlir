// RUN: heddle-opt %s --verify-roundtrip | FileCheck %s

// CHECK: dist.mesh @pod [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 4>]
dist.mesh @pod [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 4>]

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

// The whole strategy: every key.
// CHECK-LABEL: nn.func @strategy
// CHECK-SAME: {{.*}}#dist.strategy<{accumulate = 2 : i64, batch = 8 : i64, beta1 = 5.000000e-01 : f64, beta2 = 6.000000e-01 : f64, data = 2 : i64, decoupled = false, eps = 1.250000e-01 : f64, gradient_clipping = 0.000000e+00 : f64, keep = ["logits", "h.0"], lr = 1.000000e-04 : f64, march = "x86-64-v3", memory_budget = 1000 : i64, micro_batch = 2 : i64, no_decay = "bias$", optimizer = "Adam", pipe = 1 : i64, precision = "bf16", recompute = "full", schedule = "gpipe", scheduler = "WarmupLR", scheduler_params = "{}", seq = 16 : i64, sequence = 1 : i64, target = "sm_90", tensor = 1 : i64, threads = 3 : i64, weight_decay = 0.000000e+00 : f64, zero = 1 : i64}>
nn.func @strategy() attributes {nn.value = #dist.strategy<{
    batch = 8 : i64, micro_batch = 2 : i64, accumulate = 2 : i64, seq = 16 : i64,
    precision = "bf16", threads = 3 : i64, march = "x86-64-v3",
    target = "sm_90", recompute = "full", schedule = "gpipe", zero = 1 : i64,
    memory_budget = 1000 : i64, data = 2 : i64, tensor = 1 : i64,
    pipe = 1 : i64, sequence = 1 : i64, optimizer = "Adam", lr = 1.0e-4 : f64,
    beta1 = 0.5 : f64, beta2 = 0.6 : f64, eps = 0.125 : f64,
    weight_decay = 0.0 : f64, decoupled = false, gradient_clipping = 0.0 : f64,
    no_decay = "bias$", scheduler = "WarmupLR", scheduler_params = "{}",
    keep = ["logits", "h.0"]}>} {
  nn.return
}
