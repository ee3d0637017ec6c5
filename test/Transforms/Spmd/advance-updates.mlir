// RUN: heddle-opt %s --spmd-advance-updates --verify-roundtrip | FileCheck %s
// RUN: heddle-opt %s --spmd-advance-updates --spmd-stream-states --spmd-verify | FileCheck %s --check-prefix=STREAM
// RUN: sed 's/sub_group_size = 1024/sub_group_size = 0/' %s | heddle-opt --spmd-advance-updates | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/, memory = #nn<memory file>//' %s | heddle-opt --spmd-advance-updates | FileCheck %s --check-prefix=STAYS
// RUN: sed 's/micro_batches 1/micro_batches 3/' %s | heddle-opt --spmd-advance-updates | FileCheck %s --check-prefix=LAST
// RUN: sed 's/%%last = /nn.keep %%w as "w" : tensor<32x32xf32> %%last = /' %s | heddle-opt --spmd-advance-updates | FileCheck %s --check-prefix=STAYS
// RUN: sed 's/with(%%lr, /with(%%norm, /' %s | heddle-opt --spmd-advance-updates | FileCheck %s --check-prefix=STAYS
// RUN: sed 's/%%unused = /nn.set @u.grad, %%d : tensor<16x32xf32> %%unused = /' %s | heddle-opt --spmd-advance-updates | FileCheck %s --check-prefix=PART
// RUN: sed 's/%%p = nn.get/%%other = nn.get @w : tensor<32x32xf32> %%p = nn.get/' %s | heddle-opt --spmd-advance-updates | FileCheck %s --check-prefix=STAYS

// The gradient of v is there first, and nothing reads v behind it; w is read
// until the end. Their updates follow one bucket's order no more.

// CHECK-DAG: nn.bucket @parameters.all.0 [@w] : tensor<1024xf32>
// CHECK-DAG: nn.bucket @parameters.all.1 [@v, @u] : tensor<1024xf32>
// CHECK-DAG: nn.bucket @exp_avg.all.1 [@v.exp_avg, @u.exp_avg] : tensor<1024xf32>
// CHECK-NOT: nn.bucket @exp_avg.all [
// Who sums all squares reads all gradients.
// CHECK: nn.step @train
// CHECK-SAME: %[[LR:[^:]*]]: tensor<f32>
// What corrects the averages is there before.
// CHECK: nn.advance_power
// CHECK: nn.micro_batches 1
// CHECK: nn.set @v.grad
// CHECK: nn.set @u.grad
// CHECK: %[[P1:.*]] = nn.get @parameters.all.1
// CHECK: %[[G1:.*]] = nn.get @gradients.all.1
// CHECK: %[[M1:.*]] = nn.get @exp_avg.all.1
// CHECK: %[[U1:.*]]:2 = nn.update "momentum" %[[P1]], %[[G1]] states(%[[M1]]) with(%[[LR]], %{{.*}}) : (tensor<1024xf32>, tensor<1024xf32>, tensor<1024xf32>, tensor<f32>, tensor<f32>) -> (tensor<1024xf32>, tensor<1024xf32>)
// CHECK: nn.set @parameters.all.1, %[[U1]]#0
// CHECK: nn.set @exp_avg.all.1, %[[U1]]#1
// CHECK: nn.set @w.grad
// CHECK: nn.linear
// CHECK: nn.get @parameters.all.0
// CHECK: nn.update
// CHECK: nn.set @exp_avg.all.0
// CHECK: nn.return
// CHECK-NOT: nn.update
// CHECK: nn.global_norm
// CHECK-NOT: nn.update
// CHECK: nn.return

// STREAM: nn.micro_batches 1
// STREAM: dist.fetch @exp_avg.all.1[0] {pending}
// STREAM: dist.fetch @exp_avg.all.0[0] {pending}
// STREAM: nn.update
// STREAM: dist.store @exp_avg.all.1[0]
// STREAM: nn.linear
// STREAM: nn.update
// STREAM: dist.store @exp_avg.all.0[0]
// STREAM: dist.flush 0
// STREAM: nn.return

// One tile of all: it is there when the last gradient is.
// WHOLE: nn.micro_batches 1
// WHOLE: nn.linear
// WHOLE: nn.get @parameters.all :
// WHOLE: nn.update
// WHOLE: nn.return

// The last of three micro-batches is number 2.
// LAST: nn.micro_batches 2
// LAST-NOT: nn.update
// LAST: nn.micro_batches 1
// LAST-NEXT: ^bb0(%[[I:.*]]: index
// LAST-DAG: %[[TWO:.*]] = arith.constant 2 : index
// LAST: arith.addi %[[I]], %[[TWO]] : index
// LAST: nn.update
// LAST: nn.set @w.grad
// LAST: nn.update
// LAST: nn.return
// LAST-NOT: nn.update

// A gradient that is written behind the loop keeps the update of its parameter
// there, and no other.
// PART: nn.bucket @parameters.all.2 [@u] : tensor<512xf32>
// PART: nn.micro_batches
// PART: nn.update {{.*}} tensor<512xf32>
// PART: nn.update {{.*}} tensor<1024xf32>
// PART: nn.return
// PART: nn.set @u.grad
// PART: nn.get @gradients.all.2
// PART: nn.update {{.*}} tensor<512xf32>

// STAYS: nn.micro_batches
// STAYS-NOT: nn.update
// STAYS: nn.return
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
  nn.state @power role optimizer : tensor<f64>
  nn.bucket @parameters.all [@w, @v, @u] : tensor<2048xf32>
  nn.bucket @gradients.all [@w.grad, @v.grad, @u.grad] : tensor<2048xf32>
  nn.bucket @exp_avg.all [@w.exp_avg, @v.exp_avg, @u.exp_avg] : tensor<2048xf32>
  nn.step @train(%x: tensor<32x32xf32>, %d: tensor<16x32xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<value, "d">, #nn.port<lr>], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %w = nn.get @w : tensor<32x32xf32>
      nn.set @v.grad, %d : tensor<16x32xf32>
      nn.set @u.grad, %d : tensor<16x32xf32>
      nn.set @w.grad, %x : tensor<32x32xf32>
      %last = nn.linear %x, %w : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      nn.return
    }
    %all = nn.get @gradients.all : tensor<2048xf32>
    %norm = nn.global_norm %all : (tensor<2048xf32>) -> tensor<f32>
    %before = nn.get @power : tensor<f64>
    %next, %correction = nn.advance_power %before by 5.0e-01 : (tensor<f64>) -> (tensor<f64>, tensor<f32>)
    nn.set @power, %next : tensor<f64>
    %unused = nn.get @gradients.all : tensor<2048xf32>
    %p = nn.get @parameters.all : tensor<2048xf32>
    %g = nn.get @gradients.all : tensor<2048xf32>
    %m = nn.get @exp_avg.all : tensor<2048xf32>
    %0:2 = nn.update "momentum" %p, %g states(%m) with(%lr, %correction) : (tensor<2048xf32>, tensor<2048xf32>, tensor<2048xf32>, tensor<f32>, tensor<f32>) -> (tensor<2048xf32>, tensor<2048xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %e: f64, %f: f64):
      %1 = arith.addf %c, %b : f64
      %2 = arith.mulf %e, %1 : f64
      %3 = arith.divf %2, %f : f64
      %4 = arith.subf %a, %3 : f64
      nn.return %4, %1 : f64, f64
    }
    nn.set @parameters.all, %0#0 : tensor<2048xf32>
    nn.set @exp_avg.all, %0#1 : tensor<2048xf32>
    nn.return
  }
}
