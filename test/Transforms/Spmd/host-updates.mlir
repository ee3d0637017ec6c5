// RUN: heddle-opt %s --spmd-host-updates --verify-roundtrip | FileCheck %s
// RUN: heddle-opt %s --spmd-host-updates=in-flight=1 | FileCheck %s --check-prefix=ONE
// RUN: heddle-opt %s --spmd-host-updates --spmd-stream-states | FileCheck %s --check-prefix=STREAM
// RUN: sed 's/memory host/memory file/' %s | heddle-opt --spmd-host-updates | FileCheck %s --check-prefix=HERE
// RUN: sed 's/host_updates = 1.0, //' %s | heddle-opt --spmd-host-updates | FileCheck %s --check-prefix=HERE
// RUN: heddle-opt %s --spmd-host-updates --spmd-verify -o /dev/null
// RUN: heddle-opt %s --spmd-host-updates --fuse-form-kernels | FileCheck %s --check-prefix=KERNEL

// Tiles of 1024 elements, the last one of what is left. What the device has
// goes to the host, tile by tile, and comes back when the next one is there.

// CHECK-LABEL: nn.step @train
// CHECK-SAME: %[[LR:[^:]*]]: tensor<f32>
// CHECK: nn.micro_batches
// CHECK: %[[PS:.*]]:3 = nn.unpack %{{.*}} : (tensor<2560xf32>) -> (tensor<1024xf32>, tensor<1024xf32>, tensor<512xf32>)
// CHECK: %[[GS:.*]]:3 = nn.unpack
// CHECK: %[[MS:.*]]:3 = nn.unpack
// CHECK: %[[P0:.*]] = dist.move %[[PS]]#0 to_host {pending} : tensor<1024xf32>
// CHECK: %[[G0:.*]] = dist.move %[[GS]]#0 to_host {pending} : tensor<1024xf32>
// CHECK: %[[N:.*]] = dist.move %[[LR]] to_host {pending} : tensor<f32>
// CHECK: %[[LRH:.*]] = dist.wait %[[N]] : tensor<f32>
// CHECK: %[[P0H:.*]] = dist.wait %[[P0]]
// CHECK: %[[G0H:.*]] = dist.wait %[[G0]]
// CHECK: %[[U0:.*]]:2 = nn.update "momentum" %[[P0H]], %[[G0H]] states(%[[MS]]#0) with(%[[LRH]])
// CHECK: dist.move %[[PS]]#1 to_host {pending}
// CHECK: dist.move %[[GS]]#1 to_host {pending}
// CHECK: %[[B0:.*]] = dist.move %[[U0]]#0 to_device {pending} : tensor<1024xf32>
// CHECK: %[[U1:.*]]:2 = nn.update "momentum" %{{.*}}, %{{.*}} states(%[[MS]]#1) with(%[[LRH]])
// CHECK: %[[B1:.*]] = dist.move %[[U1]]#0 to_device
// CHECK: %[[U2:.*]]:2 = nn.update "momentum" %{{.*}}, %{{.*}} states(%[[MS]]#2)
// CHECK: %[[B2:.*]] = dist.move %[[U2]]#0 to_device
// CHECK: %[[W0:.*]] = dist.wait %[[B0]]
// CHECK: %[[W1:.*]] = dist.wait %[[B1]]
// CHECK: %[[W2:.*]] = dist.wait %[[B2]]
// CHECK: %[[NEW:.*]] = nn.pack %[[W0]], %[[W1]], %[[W2]]
// CHECK: %[[M:.*]] = nn.pack %[[U0]]#1, %[[U1]]#1, %[[U2]]#1
// CHECK: nn.set @parameters.all, %[[NEW]]
// CHECK: nn.set @exp_avg.all, %[[M]]
// CHECK: nn.return

// The first tile is back before the third one begins.
// ONE: %[[B0:.*]] = dist.move %{{.*}} to_device
// ONE: nn.update
// ONE: dist.move %{{.*}} to_host
// ONE: dist.wait %[[B0]]
// ONE: nn.update

// Nothing is left to stream.
// STREAM-NOT: dist.fetch
// STREAM-COUNT-3: nn.update

// Of states on file, or without the setting, the device computes updates.
// HERE-NOT: dist.move
// HERE: nn.update {{.*}} : (tensor<2560xf32>
// HERE-NOT: dist.move

// KERNEL: plan.kernel @momentum{{.*}} attributes {{{.*}}on_host

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{place = {host_updates = 1.0, sub_group_size = 1000}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<50x50xf32> {trainable}
  nn.state @w.grad role gradient : tensor<50x50xf32> {parameter = "w"}
  nn.state @w.exp_avg role optimizer : tensor<50x50xf32> {parameter = "w", memory = #nn<memory host>}
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
