// RUN: heddle-opt %s --spmd-stream-activations --verify-roundtrip | FileCheck %s
// RUN: heddle-opt %s --spmd-stream-activations --spmd-verify -o /dev/null
// RUN: sed 's/activations = file/activations = device/' %s | heddle-opt --spmd-stream-activations | FileCheck %s --check-prefix=HERE
// RUN: sed 's/32x32/16x32/g' %s | heddle-opt --spmd-stream-activations | FileCheck %s --check-prefix=SMALL
// RUN: sed 's/32x32/1x32/g; s/35x33/35x3/g' %s | heddle-opt --spmd-stream-activations 2>&1 | FileCheck %s --check-prefix=NONE

// Of four layers, the inputs of the first two are used again three layers later
// or more: they are stored while the next layer runs, and fetched while the layer
// runs before the one that needs them. A slot begins at a page.

// CHECK: nn.state @saved role saved : tensor<1x1024xf32> {memory = #nn<memory file>}
// CHECK: nn.state @saved_0 role saved : tensor<1x2048xf32> {memory = #nn<memory file>}
// CHECK-LABEL: nn.step @train
// CHECK: nn.micro_batches 2
// CHECK: %[[C0:.*]] = arith.constant 0 : index
// CHECK: %[[X0:.*]] = nn.add
// CHECK: %[[X1:.*]] = nn.call @block(%[[X0]], %{{.*}}) path "h.0"
// CHECK: dist.store @saved[0] slot %[[C0]], %[[X0]] : tensor<32x32xf32>
// CHECK: %[[X2:.*]]:2 = nn.call @wide(%[[X1]], %{{.*}}) path "h.1"
// CHECK: dist.flush 0
// CHECK-NEXT: dist.store @saved_0[0] slot %[[C0]], %[[X2]]#1 : tensor<35x33xf32>
// CHECK: %[[X3:.*]] = nn.call @block(%[[X2]]#0, %{{.*}}) path "h.2"
// CHECK-NEXT: dist.flush 0
// CHECK: %[[X4:.*]] = nn.call @block(%[[X3]], %{{.*}}) path "h.3"
// CHECK-NOT: dist.store
// CHECK: nn.call @back(%[[X4]], %[[X3]]) path "h.3"
// CHECK: %[[F1:.*]] = dist.fetch @saved_0[0] slot %[[C0]] {pending} : tensor<35x33xf32>
// CHECK: nn.call @back(%{{.*}}, %[[X2]]#0) path "h.2"
// CHECK: %[[F0:.*]] = dist.fetch @saved[0] slot %[[C0]] {pending} : tensor<32x32xf32>
// CHECK-NEXT: %[[W1:.*]] = dist.wait %[[F1]]
// CHECK: nn.call @back_wide(%{{.*}}, %[[W1]]) path "h.1"
// CHECK: %[[W0:.*]] = dist.wait %[[F0]]
// CHECK: nn.call @back(%{{.*}}, %[[W0]]) path "h.0"
// CHECK-NOT: dist.flush

// HERE-NOT: dist.store
// What has less than a page stays.
// SMALL-NOT: dist.store {{.*}}tensor<16x32xf32>
// NONE: warning: --place activations has no effect: nothing of 4096 bytes or more is used again 3 layers later
// NONE-NOT: dist.store

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{place = {activations = file}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<32x32xf32>
  nn.state @loss role accumulator : tensor<32x32xf32>
  nn.func @block(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = nn.add %x, %w : tensor<32x32xf32>
    nn.return %0 : tensor<32x32xf32>
  }
  nn.func @wide(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<35x33xf32>) {
    %0 = nn.add %x, %w : tensor<32x32xf32>
    %1 = nn.fill 1.0 : () -> tensor<35x33xf32>
    nn.return %0, %1 : tensor<32x32xf32>, tensor<35x33xf32>
  }
  nn.func @back(%g: tensor<32x32xf32>, %x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = nn.add %g, %x : tensor<32x32xf32>
    nn.return %0 : tensor<32x32xf32>
  }
  nn.func @back_wide(%g: tensor<32x32xf32>, %x: tensor<35x33xf32>) -> tensor<32x32xf32> {
    nn.return %g : tensor<32x32xf32>
  }
  nn.step @train(%x: tensor<2x32x32xf32>) -> tensor<32x32xf32> attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %zero = nn.fill 0.0 : () -> tensor<32x32xf32>
    nn.set @loss, %zero : tensor<32x32xf32>
    nn.micro_batches 2 {
    ^bb0(%i: index):
      %part = nn.micro_batch %x[%i] : tensor<2x32x32xf32> -> tensor<32x32xf32>
      %w = nn.get @w : tensor<32x32xf32>
      %0 = nn.add %part, %w : tensor<32x32xf32>
      %1 = nn.call @block(%0, %w) path "h.0" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %2:2 = nn.call @wide(%1, %w) path "h.1" : (tensor<32x32xf32>, tensor<32x32xf32>) -> (tensor<32x32xf32>, tensor<35x33xf32>)
      %3 = nn.call @block(%2#0, %w) path "h.2" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %4 = nn.call @block(%3, %w) path "h.3" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %5 = nn.call @back(%4, %3) path "h.3" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %6 = nn.call @back(%5, %2#0) path "h.2" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %7 = nn.call @back_wide(%6, %2#1) path "h.1" : (tensor<32x32xf32>, tensor<35x33xf32>) -> tensor<32x32xf32>
      %8 = nn.call @back(%7, %0) path "h.0" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %old = nn.get @loss : tensor<32x32xf32>
      %new = nn.add %old, %8 : tensor<32x32xf32>
      nn.set @loss, %new : tensor<32x32xf32>
      nn.return
    }
    %y = nn.get @loss : tensor<32x32xf32>
    nn.return %y : tensor<32x32xf32>
  }
}
