// RUN: heddle-opt %s --spmd-start-gradients --verify-roundtrip | FileCheck %s
// RUN: sed 's/micro_batches 3/micro_batches 1/; s/3x64/1x64/' %s | heddle-opt --spmd-start-gradients | FileCheck %s --check-prefix=ONE
// RUN: sed 's/, memory = #nn<memory file>//' %s | heddle-opt --spmd-start-gradients | FileCheck %s --check-prefix=HERE

// Layer 0 and its tied table: the second reader adds to what the first has made.

// CHECK-LABEL: nn.step @train
// CHECK-NOT: nn.set @gradients.all
// CHECK: nn.set @gradients.other
// CHECK: nn.micro_batches 1 {
// CHECK: %[[Z:.*]] = nn.fill 0.000000e+00 : () -> tensor<64xf32>
// CHECK: %[[A:.*]] = nn.add %[[Z]], %{{.*}} : tensor<64xf32>
// CHECK: nn.set @a.grad, %[[A]]
// CHECK: %[[G:.*]] = nn.get @a.grad
// CHECK: nn.add %[[G]]
// A state that no micro-batch writes stays what it is set to.
// CHECK: %[[C:.*]] = nn.get @c.grad
// CHECK: %[[ZB:.*]] = nn.fill 0.000000e+00 : () -> tensor<64xf32>
// CHECK: nn.add %[[ZB]], %[[C]] : tensor<64xf32>
// CHECK: nn.micro_batches 2 {
// CHECK: ^bb0(%[[I:.*]]: index):
// CHECK: %[[C1:.*]] = arith.constant 1 : index
// CHECK: %[[J:.*]] = arith.addi %[[I]], %[[C1]]
// CHECK: nn.micro_batch %{{.*}}[%[[J]]]
// CHECK: nn.get @a.grad
// CHECK: nn.get @a.grad
// CHECK: nn.get @b.grad

// ONE: nn.micro_batches 1 {
// ONE: nn.fill
// ONE-NOT: nn.micro_batches

// HERE: nn.set @gradients.all
// HERE: nn.micro_batches 3 {
// HERE-NOT: nn.micro_batches

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @a role parameter : tensor<64xf32> {trainable}
  nn.state @b role parameter : tensor<64xf32> {trainable}
  nn.state @c role parameter : tensor<64xf32> {trainable}
  nn.state @a.grad role gradient : tensor<64xf32> {parameter = "a", memory = #nn<memory file>}
  nn.state @b.grad role gradient : tensor<64xf32> {parameter = "b", memory = #nn<memory file>}
  nn.state @c.grad role gradient : tensor<64xf32> {parameter = "c", memory = #nn<memory file>}
  nn.bucket @gradients.all [@a.grad, @b.grad] : tensor<128xf32>
  nn.bucket @gradients.other [@c.grad] : tensor<64xf32>
  nn.step @train(%x: tensor<3x64xf32>) -> tensor<f32> attributes {kind = #nn.program<train>, inputs = [#nn.port<lr>], outputs = [#nn.port<grad_norm>]} {
    %zero = nn.fill 0.000000e+00 : () -> tensor<128xf32>
    nn.set @gradients.all, %zero : tensor<128xf32>
    %other = nn.fill 0.000000e+00 : () -> tensor<64xf32>
    nn.set @gradients.other, %other : tensor<64xf32>
    nn.micro_batches 3 {
    ^bb0(%i: index):
      %y = nn.micro_batch %x[%i] : tensor<3x64xf32> -> tensor<64xf32>
      %ga = nn.get @a.grad : tensor<64xf32>
      %a = nn.add %ga, %y : tensor<64xf32>
      nn.set @a.grad, %a : tensor<64xf32>
      %again = nn.get @a.grad : tensor<64xf32>
      %a2 = nn.add %again, %y : tensor<64xf32>
      nn.set @a.grad, %a2 : tensor<64xf32>
      %gb = nn.get @b.grad : tensor<64xf32>
      %gc = nn.get @c.grad : tensor<64xf32>
      %b = nn.add %gb, %gc : tensor<64xf32>
      nn.set @b.grad, %b : tensor<64xf32>
      nn.return
    }
    %all = nn.get @gradients.all : tensor<128xf32>
    %norm = nn.global_norm %all : (tensor<128xf32>) -> tensor<f32>
    nn.return %norm : tensor<f32>
  }
}
