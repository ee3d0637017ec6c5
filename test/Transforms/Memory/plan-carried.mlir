// RUN: heddle-opt %s --spmd-stream-states --fuse-form-kernels -o %t.fused
// RUN: sed 's/place = {/memory_budget = 1048576, &/' %t.fused > %t.all
// RUN: heddle-opt %t.all --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s
// RUN: sed 's/micro_batches 1/micro_batches 3/' %t.all | heddle-opt --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s
// RUN: heddle-opt %t.fused --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=FREE
// RUN: sed 's/memory_budget = 1048576/memory_budget = 145000/' %t.all | heddle-opt --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=SOME
// RUN: sed 's/memory = #nn<memory file>/memory = #nn<memory host>/' %t.all | heddle-opt --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=NONE
// RUN: sed 's/memory_budget/target = sm_90, &/' %t.all | heddle-opt --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=NONE
// RUN: sed '/nn.call/d' %t.all | heddle-opt --memory-plan --memory-verify --prove-dataflow --prove-communication | FileCheck %s --check-prefix=NONE

// Ten stores at the end. There is room for all tiles: the step waits for none
// of them, and the next one for some behind each of its three layers.

// CHECK: plan.sequence @train
// CHECK: plan.buffer {{.*}} settled
// CHECK: plan.settle 9 on copy
// CHECK: plan.loop
// CHECK: plan.call @layer
// CHECK-NEXT: plan.settle 3
// CHECK-NEXT: plan.call @layer
// CHECK-NEXT: plan.settle 6
// CHECK-NEXT: plan.call @layer
// CHECK-NEXT: plan.settle 9{{$}}
// CHECK: plan.launch @momentum
// CHECK: plan.copy {{.*}} on store
// CHECK-NEXT: %[[STORED:.*]] = plan.record store carried 0
// CHECK-NOT: plan.wait %[[STORED]]
// CHECK: plan.record store carried 9
// CHECK-NEXT: plan.end

// Without a budget no byte more is used than without that.
// FREE: arena_bytes = #plan.bytes<device 53248>
// FREE: plan.sequence @train

// SOME: plan.sequence @train
// SOME: plan.settle [[LAST:[0-9]+]] on copy
// SOME: plan.settle [[LAST]]{{$}}
// SOME: plan.copy {{.*}} on store
// SOME-NEXT: %[[FIRST:.*]] = plan.record store{{$}}
// SOME: plan.wait %[[FIRST]]{{$}}
// SOME: plan.record store carried [[LAST]]
// SOME-NEXT: plan.end

// NONE: plan.sequence @train
// NONE-NOT: settle
// NONE-NOT: carried

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{place = {sub_group_size = 1000}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<100x100xf32> {trainable}
  nn.state @w.grad role gradient : tensor<100x100xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<100x100xf32> {parameter = "w", memory = #nn<memory file>}
  nn.bucket @parameters.all [@w] : tensor<10048xf32>
  nn.bucket @gradients.all [@w.grad] : tensor<10048xf32>
  nn.bucket @exp_avg.all [@w.exp_avg] : tensor<10048xf32>
  nn.func @layer() {
    nn.return
  }
  nn.step @train(%x: tensor<100x100xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      nn.call @layer() path "h.0" : () -> ()
      nn.call @layer() path "h.1" : () -> ()
      nn.call @layer() path "h.2" : () -> ()
      nn.set @w.grad, %x : tensor<100x100xf32>
      nn.return
    }
    %p = nn.get @parameters.all : tensor<10048xf32>
    %g = nn.get @gradients.all : tensor<10048xf32>
    %m = nn.get @exp_avg.all : tensor<10048xf32>
    %0:2 = nn.update "momentum" %p, %g states(%m) with(%lr) : (tensor<10048xf32>, tensor<10048xf32>, tensor<10048xf32>, tensor<f32>) -> (tensor<10048xf32>, tensor<10048xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %1 = arith.addf %c, %b : f64
      %2 = arith.mulf %d, %1 : f64
      %3 = arith.subf %a, %2 : f64
      nn.return %3, %1 : f64, f64
    }
    nn.set @parameters.all, %0#0 : tensor<10048xf32>
    nn.set @exp_avg.all, %0#1 : tensor<10048xf32>
    nn.return
  }
}
