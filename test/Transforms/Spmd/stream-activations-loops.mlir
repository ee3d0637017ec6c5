// RUN: heddle-opt %s --spmd-stream-activations --verify-roundtrip | FileCheck %s
// RUN: heddle-opt %s --spmd-stream-activations --spmd-verify -o /dev/null

// Loops run one after the other, so the second one stores in the slot of the
// first; only what is of another type needs one of its own.

// CHECK: nn.state @saved role saved : tensor<1x1024xf32> {memory = #nn<memory file>}
// CHECK: nn.state @saved_0 role saved : tensor<1x2048xf32> {memory = #nn<memory file>}
// CHECK-NOT: nn.state @saved_1
// CHECK-LABEL: nn.step @train
// CHECK: nn.micro_batches 2
// CHECK: dist.store @saved[0]
// CHECK: dist.fetch @saved[0]
// CHECK: nn.micro_batches 1
// CHECK: dist.store @saved_0[0] {{.*}}tensor<35x33xf32>
// CHECK: dist.store @saved[0] {{.*}}tensor<32x32xf32>
// CHECK: dist.fetch @saved[0]
// CHECK: dist.fetch @saved_0[0]

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{place = {activations = file}}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<32x32xf32>
  nn.state @v role parameter : tensor<35x33xf32>
  nn.state @loss role accumulator : tensor<32x32xf32>
  nn.func @block(%x: tensor<32x32xf32>, %w: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = nn.add %x, %w : tensor<32x32xf32>
    nn.return %0 : tensor<32x32xf32>
  }
  nn.func @back(%g: tensor<32x32xf32>, %x: tensor<32x32xf32>) -> tensor<32x32xf32> {
    %0 = nn.add %g, %x : tensor<32x32xf32>
    nn.return %0 : tensor<32x32xf32>
  }
  nn.func @back_wide(%g: tensor<32x32xf32>, %x: tensor<35x33xf32>) -> tensor<32x32xf32> {
    nn.return %g : tensor<32x32xf32>
  }
  nn.step @train(%x: tensor<3x32x32xf32>) -> tensor<32x32xf32> attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %zero = nn.fill 0.0 : () -> tensor<32x32xf32>
    nn.set @loss, %zero : tensor<32x32xf32>
    nn.micro_batches 2 {
    ^bb0(%i: index):
      %part = nn.micro_batch %x[%i] : tensor<3x32x32xf32> -> tensor<32x32xf32>
      %w = nn.get @w : tensor<32x32xf32>
      %0 = nn.add %part, %w : tensor<32x32xf32>
      %1 = nn.call @block(%0, %w) path "h.0" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %2 = nn.call @block(%1, %w) path "h.1" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %3 = nn.call @block(%2, %w) path "h.2" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %top = nn.call @block(%3, %w) path "h.3" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %4 = nn.call @back(%top, %0) path "h.0" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      nn.set @loss, %4 : tensor<32x32xf32>
      nn.return
    }
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %others = arith.constant 2 : index
      %last = arith.addi %i, %others : index
      %part = nn.micro_batch %x[%last] : tensor<3x32x32xf32> -> tensor<32x32xf32>
      %w = nn.get @w : tensor<32x32xf32>
      %v = nn.get @v : tensor<35x33xf32>
      %wide = nn.add %v, %v : tensor<35x33xf32>
      %0 = nn.add %part, %w : tensor<32x32xf32>
      %1 = nn.call @block(%0, %w) path "h.0" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %2 = nn.call @block(%1, %w) path "h.1" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %3 = nn.call @block(%2, %w) path "h.2" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %top = nn.call @block(%3, %w) path "h.3" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %4 = nn.call @back(%top, %0) path "h.0" : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<32x32xf32>
      %5 = nn.call @back_wide(%4, %wide) path "h.0" : (tensor<32x32xf32>, tensor<35x33xf32>) -> tensor<32x32xf32>
      nn.set @loss, %5 : tensor<32x32xf32>
      nn.return
    }
    %y = nn.get @loss : tensor<32x32xf32>
    nn.return %y : tensor<32x32xf32>
  }
}
