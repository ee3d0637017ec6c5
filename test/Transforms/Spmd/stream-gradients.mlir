// RUN: heddle-opt %s --spmd-stream-gradients --verify-roundtrip | FileCheck %s
// RUN: heddle-opt %s --spmd-stream-gradients --spmd-stream-states --spmd-verify | FileCheck %s --check-prefix=STREAM
// RUN: sed 's/memory file/memory host/' %s | heddle-opt --spmd-stream-gradients | FileCheck %s --check-prefix=MEMORY
// RUN: sed 's/, memory = #nn<memory file>//' %s | heddle-opt --spmd-stream-gradients | FileCheck %s --check-prefix=HERE

// A bucket of four gradients on file: of layer 0, and of layer 1. A page has
// 1024 elements: those of layer 0 end in the middle of one, in which those of
// layer 1 begin.

// CHECK-LABEL: nn.step @train
// What micro-batches add to begins with 0: by tiles of one fill.
// CHECK: %[[Z:.*]] = nn.fill 0.000000e+00 : () -> tensor<2048xf32>
// CHECK: dist.store @gradients.all[0], %[[Z]] : tensor<2048xf32>
// CHECK: dist.store @gradients.all[2048], %[[Z]] : tensor<2048xf32>
// CHECK: %[[TAIL:.*]] = nn.unpack %[[Z]] : (tensor<2048xf32>) -> tensor<256xf32>
// CHECK: dist.store @gradients.all[4096], %[[TAIL]]
// CHECK: dist.flush 0
// CHECK: nn.micro_batches 2
// Those of layer 1 come while its forward function runs, from a page's begin on.
// CHECK: %[[F1:.*]] = dist.fetch @gradients.all[2048] {pending} : tensor<2304xf32>
// CHECK: nn.call @fwd({{.*}}) path "h.1"
// CHECK: %[[W1:.*]] = dist.wait %[[F1]]
// CHECK: %[[G1:.*]]:3 = nn.unpack %[[W1]] : (tensor<2304xf32>) -> (tensor<128xf32>, tensor<32x66xf32>, tensor<32xf32>)
// Those of layer 0 while that of layer 1 does.
// CHECK: %[[F0:.*]] = dist.fetch @gradients.all[0] {pending} : tensor<3072xf32>
// CHECK: %[[N1:.*]]:2 = nn.call @bwd(%[[G1]]#1, %[[G1]]#2) path "h.1"
// In place, and without the part of a page that layer 0 has not added to.
// CHECK: %[[P1:.*]] = nn.pack %[[G1]]#0, %[[N1]]#0, %[[N1]]#1
// CHECK: %[[S1:.*]]:3 = nn.unpack %[[P1]] : (tensor<2304xf32>) -> (tensor<128xf32>, tensor<896xf32>, tensor<1280xf32>)
// CHECK: %[[E1:.*]] = nn.pack %[[S1]]#1 : (tensor<896xf32>) -> tensor<896xf32>
// CHECK: dist.store @gradients.all[3072], %[[S1]]#2 : tensor<1280xf32>
// CHECK: %[[W0:.*]] = dist.wait %[[F0]]
// CHECK: %[[G0:.*]]:3 = nn.unpack %[[W0]] : (tensor<3072xf32>) -> (tensor<32x66xf32>, tensor<32xf32>, tensor<896xf32>)
// CHECK: %[[N0:.*]]:2 = nn.call @bwd(%[[G0]]#0, %[[G0]]#1) path "h.0"
// CHECK: dist.flush 0
// CHECK: %[[P0:.*]] = nn.pack %[[N0]]#0, %[[N0]]#1, %[[G0]]#2
// CHECK: %[[S0:.*]]:2 = nn.unpack %[[P0]] : (tensor<3072xf32>) -> (tensor<2048xf32>, tensor<128xf32>)
// CHECK: dist.store @gradients.all[0], %[[S0]]#0 : tensor<2048xf32>
// The page is whole now.
// CHECK: %[[E0:.*]] = nn.pack %[[S0]]#1 : (tensor<128xf32>) -> tensor<128xf32>
// CHECK: %[[PAGE:.*]] = nn.pack %[[E0]], %[[E1]] : (tensor<128xf32>, tensor<896xf32>) -> tensor<1024xf32>
// CHECK: dist.store @gradients.all[2048], %[[PAGE]] : tensor<1024xf32>
// CHECK: dist.flush 0
// CHECK: nn.return
// A norm of few elements is made as everywhere: of the whole.
// CHECK: %[[ALL:.*]] = dist.fetch @gradients.all[0] {pending} : tensor<4352xf32>
// CHECK: %[[G:.*]] = dist.wait %[[ALL]]
// CHECK: nn.global_norm %[[G]]

// The update reads gradients by tiles, none of them before the last store.
// STREAM: nn.micro_batches 2
// STREAM: nn.return
// STREAM: dist.fetch @gradients.all[0] {pending} : tensor<2048xf32>
// STREAM: dist.fetch @gradients.all[2048] {pending} : tensor<2048xf32>
// STREAM: nn.global_norm
// STREAM: nn.update
// STREAM: dist.fetch @gradients.all[4096] {pending} : tensor<256xf32>
// STREAM: nn.update
// STREAM: nn.update

// In the host's memory copies begin anywhere.
// MEMORY: nn.micro_batches
// MEMORY: dist.fetch @gradients.all[2176] {pending} : tensor<2176xf32>
// MEMORY: dist.store @gradients.all[2176], %{{.*}} : tensor<2176xf32>
// MEMORY: dist.store @gradients.all[0], %{{.*}} : tensor<2176xf32>
// MEMORY-NOT: dist.store

// HERE-NOT: dist.{{fetch|store|flush}}

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{place = {sub_group_size = 2048}}>, config = "{}", weights = {}} {
  nn.state @w0 role parameter : tensor<32x66xf32> {trainable}
  nn.state @b0 role parameter : tensor<32xf32> {trainable}
  nn.state @w1 role parameter : tensor<32x66xf32> {trainable}
  nn.state @b1 role parameter : tensor<32xf32> {trainable}
  nn.state @w0.grad role gradient : tensor<32x66xf32> {parameter = "w0", memory = #nn<memory file>}
  nn.state @b0.grad role gradient : tensor<32xf32> {parameter = "b0", memory = #nn<memory file>}
  nn.state @w1.grad role gradient : tensor<32x66xf32> {parameter = "w1", memory = #nn<memory file>}
  nn.state @b1.grad role gradient : tensor<32xf32> {parameter = "b1", memory = #nn<memory file>}
  nn.bucket @parameters.all [@w0, @b0, @w1, @b1] : tensor<4352xf32>
  nn.bucket @gradients.all [@w0.grad, @b0.grad, @w1.grad, @b1.grad] : tensor<4352xf32>
  nn.func @fwd() {
    nn.return
  }
  nn.func @bwd(%gw: tensor<32x66xf32>, %gb: tensor<32xf32>) -> (tensor<32x66xf32>, tensor<32xf32>) {
    %w = nn.add %gw, %gw : tensor<32x66xf32>
    %b = nn.add %gb, %gb : tensor<32xf32>
    nn.return %w, %b : tensor<32x66xf32>, tensor<32xf32>
  }
  nn.step @train(%lr: tensor<f32>) -> tensor<f32> attributes {kind = #nn.program<train>, inputs = [#nn.port<lr>], outputs = [#nn.port<grad_norm>]} {
    %zero = nn.fill 0.000000e+00 : () -> tensor<4352xf32>
    nn.set @gradients.all, %zero : tensor<4352xf32>
    nn.micro_batches 2 {
    ^bb0(%i: index):
      nn.call @fwd() path "h.1" : () -> ()
      %gw1 = nn.get @w1.grad : tensor<32x66xf32>
      %gb1 = nn.get @b1.grad : tensor<32xf32>
      %1:2 = nn.call @bwd(%gw1, %gb1) path "h.1" : (tensor<32x66xf32>, tensor<32xf32>) -> (tensor<32x66xf32>, tensor<32xf32>)
      nn.set @w1.grad, %1#0 : tensor<32x66xf32>
      nn.set @b1.grad, %1#1 : tensor<32xf32>
      %gw0 = nn.get @w0.grad : tensor<32x66xf32>
      %gb0 = nn.get @b0.grad : tensor<32xf32>
      %0:2 = nn.call @bwd(%gw0, %gb0) path "h.0" : (tensor<32x66xf32>, tensor<32xf32>) -> (tensor<32x66xf32>, tensor<32xf32>)
      nn.set @w0.grad, %0#0 : tensor<32x66xf32>
      nn.set @b0.grad, %0#1 : tensor<32xf32>
      nn.return
    }
    %all = nn.get @gradients.all : tensor<4352xf32>
    %norm = nn.global_norm %all : (tensor<4352xf32>) -> tensor<f32>
    %p = nn.get @parameters.all : tensor<4352xf32>
    %g = nn.get @gradients.all : tensor<4352xf32>
    %u = nn.update "sgd" %p, %g with(%lr) : (tensor<4352xf32>, tensor<4352xf32>, tensor<f32>) -> tensor<4352xf32> {
    ^bb0(%a: f64, %b: f64, %c: f64):
      %2 = arith.mulf %c, %b : f64
      %3 = arith.subf %a, %2 : f64
      nn.return %3 : f64
    }
    nn.set @parameters.all, %u : tensor<4352xf32>
    nn.return %norm : tensor<f32>
  }
}
