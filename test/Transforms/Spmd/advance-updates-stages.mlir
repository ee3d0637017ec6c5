// RUN: heddle-opt %s --spmd-advance-updates --verify-roundtrip | FileCheck %s
// RUN: heddle-opt %s --spmd-advance-updates --spmd-stream-states --spmd-verify -o /dev/null
// RUN: sed 's/"F0 B0 F1 B1"/"F0 B0"/' %s | heddle-opt --spmd-advance-updates | FileCheck %s --check-prefix=ONCE
// RUN: sed 's/with(%%lr)/with(%%norm)/' %s | heddle-opt --spmd-advance-updates | FileCheck %s --check-prefix=STAYS

// The last fragment of a stage has a line of its own, in which v and w are
// updated. Stages add the gradient of u up behind it: its update stays there.

// CHECK-DAG: nn.bucket @parameters.all.0 [@w] : tensor<1024xf32>
// CHECK-DAG: nn.bucket @parameters.all.1 [@v] : tensor<512xf32>
// CHECK-DAG: nn.bucket @parameters.all.2 [@u] : tensor<512xf32>
// CHECK: pipe.fragments "F0 B0 F1" slots [1, 1]
// CHECK-NOT: nn.update
// CHECK: pipe.fragments "B1" slots [1]
// CHECK: nn.set @v.grad
// CHECK: %[[G1:.*]] = nn.get @gradients.all.1
// CHECK: nn.update "momentum" %{{.*}}, %[[G1]]
// CHECK: nn.set @w.grad
// CHECK: %[[G0:.*]] = nn.get @gradients.all.0
// CHECK: nn.update "momentum" %{{.*}}, %[[G0]]
// CHECK: nn.return
// CHECK: dist.recv
// CHECK: nn.set @u.grad
// CHECK: %[[G2:.*]] = nn.get @gradients.all.2
// CHECK: nn.update "momentum" %{{.*}}, %[[G2]]
// CHECK-NOT: nn.update

// Of one micro-batch nothing runs a backward pass before.
// ONCE: pipe.fragments "F0" slots [1]
// ONCE: pipe.fragments "B0" slots [1]

// STAYS: pipe.fragments "F0 B0 F1 B1" slots [1, 1]
// STAYS-NOT: nn.update
// STAYS: dist.recv
// STAYS: nn.update {{.*}} tensor<2048xf32>

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{place = {sub_group_size = 1024}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<32x32xf32> {trainable}
  nn.state @w.grad role gradient : tensor<32x32xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<32x32xf32> {parameter = "w", memory = #nn<memory file>}
  nn.state @v role parameter : tensor<16x32xf32> {trainable}
  nn.state @v.grad role gradient : tensor<16x32xf32> {parameter = "v"}
  nn.state @v.exp_avg role optimizer : tensor<16x32xf32> {parameter = "v", memory = #nn<memory file>}
  nn.state @u role parameter : tensor<16x32xf32> {trainable}
  nn.state @u.grad role gradient : tensor<16x32xf32> {parameter = "u"}
  nn.state @u.exp_avg role optimizer : tensor<16x32xf32> {parameter = "u", memory = #nn<memory file>}
  nn.bucket @parameters.all [@w, @v, @u] : tensor<2048xf32>
  nn.bucket @gradients.all [@w.grad, @v.grad, @u.grad] : tensor<2048xf32>
  nn.bucket @exp_avg.all [@w.exp_avg, @v.exp_avg, @u.exp_avg] : tensor<2048xf32>
  nn.step @train(%x: tensor<32x32xf32>, %d: tensor<16x32xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<value, "d">, #nn.port<lr>], outputs = []} {
    pipe.fragments "F0 B0 F1 B1" slots [1, 1] {
    ^bb0(%i: index, %s: index):
      nn.return
    }, {
    ^bb0(%i: index, %s: index):
      nn.set @u.grad, %d : tensor<16x32xf32>
      nn.set @v.grad, %d : tensor<16x32xf32>
      nn.set @w.grad, %x : tensor<32x32xf32>
      nn.return
    }
    %mine = nn.get @u.grad : tensor<16x32xf32>
    dist.send %mine to 1 on "pipe" channel "u.grad" : tensor<16x32xf32>
    %sum = dist.recv from 1 on "pipe" channel "u.grad.sum" : tensor<16x32xf32>
    nn.set @u.grad, %sum : tensor<16x32xf32>
    %all = nn.get @gradients.all : tensor<2048xf32>
    %norm = nn.global_norm %all : (tensor<2048xf32>) -> tensor<f32>
    %p = nn.get @parameters.all : tensor<2048xf32>
    %g = nn.get @gradients.all : tensor<2048xf32>
    %m = nn.get @exp_avg.all : tensor<2048xf32>
    %0:2 = nn.update "momentum" %p, %g states(%m) with(%lr) : (tensor<2048xf32>, tensor<2048xf32>, tensor<2048xf32>, tensor<f32>) -> (tensor<2048xf32>, tensor<2048xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %e: f64):
      %1 = arith.addf %c, %b : f64
      %2 = arith.mulf %e, %1 : f64
      %3 = arith.subf %a, %2 : f64
      nn.return %3, %1 : f64, f64
    }
    nn.set @parameters.all, %0#0 : tensor<2048xf32>
    nn.set @exp_avg.all, %0#1 : tensor<2048xf32>
    nn.return
  }
}
