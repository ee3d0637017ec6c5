// RUN: heddle-opt %s --spmd-localize --spmd-verify | FileCheck %s
// RUN: sed 's/batch = 1/batch = 2/; s/data = 1/data = 2/' %s \
// RUN:   | not heddle-opt --shard-propagate --spmd-localize 2>&1 | FileCheck %s --check-prefix=SPLIT

// Values that are whole on every rank lose their shardings; what several ranks
// would have to exchange is refused.

// SPLIT: error: H0202: a value changes its sharding between ranks: this version compiles for one rank only

// CHECK-LABEL: nn.model @m
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{batch = 1 : i64, data = 1 : i64}>,
    config = "{}", weights = {}} {
  // CHECK: nn.func @layer(%{{.*}}: tensor<2x4xf32>) -> tensor<2x4xf32> {
  nn.func @layer(%x: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {
      arg_shardings = [#dist.sharding<[[], []], unreduced []>],
      result_shardings = [#dist.sharding<[[], []], unreduced []>]} {
    // CHECK: nn.relu %{{[^ ]*}} : tensor<2x4xf32>
    %0 = nn.relu %x {shardings = [#dist.sharding<[[], []], unreduced []>]} : tensor<2x4xf32>
    nn.return %0 : tensor<2x4xf32>
  }
  // CHECK: nn.step @eval
  // CHECK-NOT: shardings
  nn.step @eval(%x: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {
      kind = "eval", arg_names = ["x"], result_names = ["y"],
      arg_shardings = [#dist.sharding<[[], []], unreduced []>],
      result_shardings = [#dist.sharding<[[], []], unreduced []>]} {
    %0 = nn.call @layer(%x) path "h.0" : (tensor<2x4xf32>) -> tensor<2x4xf32>
    nn.return %0 : tensor<2x4xf32>
  }
}
