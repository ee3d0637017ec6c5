// RUN: heddle-opt %s --fuse-form-kernels --fuse-verify | FileCheck %s

// A kernel is named after what it does, unless a state has that name.

// CHECK: nn.state @relu
// CHECK: plan.launch @relu_1(
// CHECK: plan.launch @relu_2(
// CHECK: plan.kernel @relu_1(
// CHECK: plan.kernel @relu_2(
nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @relu role accumulator : tensor<4xf32>
  nn.step @train(%x: tensor<4xf32>) attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    %0 = nn.map relu(%x) : tensor<4xf32>
    nn.keep %0 as "a" : tensor<4xf32>
    nn.set @relu, %0 : tensor<4xf32>
    %1 = nn.get @relu : tensor<4xf32>
    %2 = nn.map relu(%1) : tensor<4xf32>
    nn.keep %2 as "b" : tensor<4xf32>
    nn.return
  }
}
