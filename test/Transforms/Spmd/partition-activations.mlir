// RUN: heddle-opt %s --spmd-partition-activations --verify-roundtrip | FileCheck %s
// RUN: heddle-opt %s --spmd-partition-activations --spmd-localize --spmd-overlap | FileCheck %s --check-prefix=LOCAL
// RUN: heddle-opt %s --spmd-partition-activations --spmd-localize --spmd-overlap --spmd-verify -o /dev/null
// RUN: sed 's/partition_activations = true/activations = device/' %s | heddle-opt --spmd-partition-activations | FileCheck %s --check-prefix=OFF
// RUN: sed 's/"tensor" = 2/"tensor" = 1/' %s | heddle-opt --spmd-partition-activations 2>&1 | FileCheck %s --check-prefix=OFF
// RUN: sed 's/33x33/31x33/g' %s | heddle-opt --spmd-partition-activations 2>&1 | FileCheck %s --check-prefix=NONE

// Of three layers, two values are used again three layers later
// or more. One of them is cut; of the other tensor ranks hold different parts already. The 1089 elements are padded to 1152.

// CHECK: nn.state @slots role saved : tensor<2x1152xf32> {storage = #dist.sharding<{{\[\[}}], ["tensor"]], unreduced []>}
// CHECK-LABEL: nn.step @train
// CHECK: %[[X0:.*]] = nn.add
// CHECK: nn.call @wide(%[[X0]]) path "h.0"
// CHECK-NEXT: %[[FLAT:.*]] = nn.pack %[[X0]] : (tensor<33x33xf32>) -> tensor<1152xf32>
// CHECK-NEXT: %[[CUT:.*]] = dist.reshard %[[FLAT]] from <{{\[\[}}]], unreduced []> to <{{\[\[}}"tensor"]], unreduced []> for "activations"
// CHECK-NEXT: %[[PART:.*]] = nn.pack %[[CUT]]
// CHECK-NOT: for "activations"
// CHECK: %[[WHOLE:.*]] = dist.reshard %[[PART]] from <{{\[\[}}"tensor"]], unreduced []> to <{{\[\[}}]], unreduced []> for "activations"
// CHECK-NEXT: nn.call @back_wide({{.*}}) path "h.1"
// CHECK-NEXT: %[[AGAIN:.*]] = nn.unpack %[[WHOLE]] {shardings = {{.*}}} : (tensor<1152xf32>) -> tensor<33x33xf32>
// CHECK-NEXT: nn.call @back(%{{.*}}, %[[AGAIN]]) path "h.0"

// The part is a copy, so that the whole is forgotten; the gather runs beside a layer.
// LOCAL: %[[FLAT:.*]] = nn.pack %{{.*}} : (tensor<33x33xf32>) -> tensor<1152xf32>
// LOCAL-NEXT: %[[VIEW:.*]] = dist.slice %[[FLAT]] axes ["tensor"] dim 0
// LOCAL-NEXT: %[[PART:.*]] = nn.pack %[[VIEW]] : (tensor<576xf32>) -> tensor<576xf32>
// LOCAL: %[[G:.*]] = dist.all_gather %[[PART]] axes ["tensor"] dim 0 for "activations" {pending}
// LOCAL-NEXT: nn.call @back_wide
// LOCAL-NEXT: %[[W:.*]] = dist.wait %[[G]]
// LOCAL-NEXT: nn.unpack %[[W]]

// What a fragment leaves to a later one is cut before it is in its slot.
// CHECK: nn.set @slots[%{{.*}}], %{{.*}} : tensor<1152xf32>
// CHECK: %[[GOT:.*]] = nn.get @slots[%{{.*}}] : tensor<1152xf32>
// CHECK-NEXT: %[[ALL:.*]] = dist.reshard %[[GOT]]
// CHECK-NEXT: nn.call @back({{.*}}) path "h.1"
// CHECK-NEXT: nn.unpack %[[ALL]]
// LOCAL: nn.set @slots[%{{.*}}], %{{.*}} : tensor<576xf32>
// LOCAL: dist.all_gather %{{.*}} axes ["tensor"] dim 0 for "activations" {pending}

// OFF-NOT: for "activations"
// NONE: warning: --partition-activations has no effect: nothing of 4096 bytes or more that tensor ranks hold alike is used again 3 layers later
// NONE-NOT: for "activations"

nn.model @m family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}, place = {partition_activations = true}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 2>]
  nn.state @loss role accumulator : tensor<33x33xf32>
  nn.state @slots role saved : tensor<2x33x33xf32>
  nn.func @block(%x: tensor<33x33xf32>) -> tensor<33x33xf32> {
    %0 = nn.add %x, %x : tensor<33x33xf32>
    nn.return %0 : tensor<33x33xf32>
  }
  nn.func @wide(%x: tensor<33x33xf32>) -> (tensor<33x33xf32>, tensor<64x66xf32>) attributes {
      result_shardings = [#dist.sharding<[[], []], unreduced []>, #dist.sharding<[[], ["tensor"]], unreduced []>]} {
    %0 = nn.add %x, %x : tensor<33x33xf32>
    %1 = nn.fill 1.0 {shardings = [#dist.sharding<[[], ["tensor"]], unreduced []>]} : () -> tensor<64x66xf32>
    nn.return %0, %1 : tensor<33x33xf32>, tensor<64x66xf32>
  }
  nn.func @back(%g: tensor<33x33xf32>, %x: tensor<33x33xf32>) -> tensor<33x33xf32> {
    %0 = nn.add %g, %x : tensor<33x33xf32>
    nn.return %0 : tensor<33x33xf32>
  }
  nn.func @back_wide(%g: tensor<33x33xf32>, %x: tensor<64x66xf32>) -> tensor<33x33xf32> attributes {
      arg_shardings = [#dist.sharding<[[], []], unreduced []>, #dist.sharding<[[], ["tensor"]], unreduced []>]} {
    nn.return %g : tensor<33x33xf32>
  }
  nn.step @train(%x: tensor<2x33x33xf32>) -> tensor<33x33xf32> attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %zero = nn.fill 0.0 : () -> tensor<33x33xf32>
    nn.set @loss, %zero : tensor<33x33xf32>
    nn.micro_batches 2 {
    ^bb0(%i: index):
      %part = nn.micro_batch %x[%i] : tensor<2x33x33xf32> -> tensor<33x33xf32>
      %0 = nn.add %part, %part : tensor<33x33xf32>
      %1:2 = nn.call @wide(%0) path "h.0" : (tensor<33x33xf32>) -> (tensor<33x33xf32>, tensor<64x66xf32>)
      %2 = nn.call @block(%1#0) path "h.1" : (tensor<33x33xf32>) -> tensor<33x33xf32>
      %3 = nn.call @block(%2) path "h.2" : (tensor<33x33xf32>) -> tensor<33x33xf32>
      %4 = nn.call @back(%3, %2) path "h.2" : (tensor<33x33xf32>, tensor<33x33xf32>) -> tensor<33x33xf32>
      %5 = nn.call @back_wide(%4, %1#1) path "h.1" : (tensor<33x33xf32>, tensor<64x66xf32>) -> tensor<33x33xf32>
      %7 = nn.call @back(%5, %0) path "h.0" : (tensor<33x33xf32>, tensor<33x33xf32>) -> tensor<33x33xf32>
      %old = nn.get @loss : tensor<33x33xf32>
      %new = nn.add %old, %7 : tensor<33x33xf32>
      nn.set @loss, %new : tensor<33x33xf32>
      nn.return
    }
    pipe.fragments "F0 B0" slots [2, 2] {
    ^bb0(%i: index, %slot: index):
      %part = nn.micro_batch %x[%i] : tensor<2x33x33xf32> -> tensor<33x33xf32>
      %0 = nn.call @block(%part) path "h.0" : (tensor<33x33xf32>) -> tensor<33x33xf32>
      nn.set @slots[%slot], %0 : tensor<33x33xf32>
      nn.return
    }, {
    ^bb0(%i: index, %slot: index):
      %part = nn.micro_batch %x[%i] : tensor<2x33x33xf32> -> tensor<33x33xf32>
      %0 = nn.get @slots[%slot] : tensor<33x33xf32>
      %1 = nn.call @back(%part, %part) path "h.1" : (tensor<33x33xf32>, tensor<33x33xf32>) -> tensor<33x33xf32>
      %2 = nn.call @back(%1, %0) path "h.0" : (tensor<33x33xf32>, tensor<33x33xf32>) -> tensor<33x33xf32>
      %old = nn.get @loss : tensor<33x33xf32>
      %new = nn.add %old, %2 : tensor<33x33xf32>
      nn.set @loss, %new : tensor<33x33xf32>
      nn.return
    }
    %y = nn.get @loss : tensor<33x33xf32>
    nn.return %y : tensor<33x33xf32>
  }
}
