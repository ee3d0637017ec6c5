// RUN: heddle-opt %s --spmd-stream-states --verify-roundtrip | FileCheck %s
// RUN: heddle-opt %s --spmd-stream-states=ahead=1 | FileCheck %s --check-prefix=ONE
// RUN: sed 's/sub_group_size = 1000/sub_group_size = 0/' %s | heddle-opt --spmd-stream-states | FileCheck %s --check-prefix=WHOLE
// RUN: sed 's/memory = #nn<memory file>/trainable/' %s | heddle-opt --spmd-stream-states | FileCheck %s --check-prefix=HERE
// RUN: heddle-opt %s --spmd-stream-states --spmd-verify -o /dev/null

// Tiles of 1024 elements, the last one of what is left: each is fetched while
// the one before it is updated, and stored while the next one is.

// CHECK-LABEL: nn.step @train
// CHECK-SAME: %[[LR:[^:]*]]: tensor<f32>
// The first are fetched as soon as the gradients are there.
// CHECK: nn.micro_batches
// CHECK: %[[M0:.*]] = dist.fetch @exp_avg.all[0] {pending} : tensor<1024xf32>
// CHECK: %[[M1:.*]] = dist.fetch @exp_avg.all[1024] {pending} : tensor<1024xf32>
// CHECK: %[[P:.*]] = nn.get @parameters.all : tensor<2560xf32>
// CHECK: %[[G:.*]] = nn.get @gradients.all : tensor<2560xf32>
// CHECK: %[[PS:.*]]:3 = nn.unpack %[[P]] : (tensor<2560xf32>) -> (tensor<1024xf32>, tensor<1024xf32>, tensor<512xf32>)
// CHECK: %[[GS:.*]]:3 = nn.unpack %[[G]]
// CHECK: %[[W0:.*]] = dist.wait %[[M0]] : tensor<1024xf32>
// CHECK: %[[U0:.*]]:2 = nn.update "momentum" %[[PS]]#0, %[[GS]]#0 states(%[[W0]]) with(%[[LR]])
// CHECK: dist.store @exp_avg.all[0], %[[U0]]#1 : tensor<1024xf32>
// CHECK: dist.flush 1
// CHECK: %[[M2:.*]] = dist.fetch @exp_avg.all[2048] {pending} : tensor<512xf32>
// CHECK: %[[W1:.*]] = dist.wait %[[M1]]
// CHECK: %[[U1:.*]]:2 = nn.update "momentum" %[[PS]]#1, %[[GS]]#1 states(%[[W1]])
// CHECK: dist.store @exp_avg.all[1024], %[[U1]]#1
// CHECK: dist.flush 1
// CHECK: %[[W2:.*]] = dist.wait %[[M2]]
// CHECK: %[[U2:.*]]:2 = nn.update "momentum" %[[PS]]#2, %[[GS]]#2 states(%[[W2]])
// CHECK: dist.store @exp_avg.all[2048], %[[U2]]#1 : tensor<512xf32>
// CHECK: dist.flush 0
// CHECK: %[[NEW:.*]] = nn.pack %[[U0]]#0, %[[U1]]#0, %[[U2]]#0
// CHECK: nn.set @parameters.all, %[[NEW]] : tensor<2560xf32>
// CHECK-NOT: @exp_avg.all
// CHECK: nn.return

// ONE: dist.fetch @exp_avg.all[0]
// ONE: nn.update
// ONE: dist.fetch @exp_avg.all[1024]

// Few elements are one tile.
// WHOLE: %[[M:.*]] = dist.fetch @exp_avg.all[0] {pending} : tensor<2560xf32>
// WHOLE-NOT: nn.unpack
// WHOLE: nn.update
// WHOLE: dist.store @exp_avg.all[0]
// WHOLE-NOT: nn.pack

// States in the device's memory are updated as they are.
// HERE-NOT: dist.fetch
// HERE: nn.update {{.*}} : (tensor<2560xf32>
// HERE-NOT: dist.store

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{place = {sub_group_size = 1000}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<50x50xf32> {trainable}
  nn.state @w.grad role gradient : tensor<50x50xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<50x50xf32> {parameter = "w", memory = #nn<memory file>}
  nn.bucket @parameters.all [@w] : tensor<2560xf32>
  nn.bucket @gradients.all [@w.grad] : tensor<2560xf32>
  nn.bucket @exp_avg.all [@w.exp_avg] : tensor<2560xf32>
  nn.step @train(%x: tensor<50x50xf32>, %lr: tensor<f32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<lr>], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      nn.set @w.grad, %x : tensor<50x50xf32>
      nn.return
    }
    %p = nn.get @parameters.all : tensor<2560xf32>
    %g = nn.get @gradients.all : tensor<2560xf32>
    %m = nn.get @exp_avg.all : tensor<2560xf32>
    %0:2 = nn.update "momentum" %p, %g states(%m) with(%lr) : (tensor<2560xf32>, tensor<2560xf32>, tensor<2560xf32>, tensor<f32>) -> (tensor<2560xf32>, tensor<2560xf32>) {
    ^bb0(%a: f64, %b: f64, %c: f64, %d: f64):
      %1 = arith.addf %c, %b : f64
      %2 = arith.mulf %d, %1 : f64
      %3 = arith.subf %a, %2 : f64
      nn.return %3, %1 : f64, f64
    }
    nn.set @parameters.all, %0#0 : tensor<2560xf32>
    nn.set @exp_avg.all, %0#1 : tensor<2560xf32>
    nn.return
  }
}
