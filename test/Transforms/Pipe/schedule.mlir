// RUN: heddle-opt %s --pipe-schedule --pipe-verify | FileCheck %s --check-prefix=ONE
// RUN: sed 's/pipe = 1/pipe = 2/' %s | heddle-opt --pipe-schedule --pipe-verify | FileCheck %s --check-prefix=TWO
// RUN: sed 's/pipe = 1/pipe = 2/; /embedding/d' %s | heddle-opt --pipe-schedule | FileCheck %s --check-prefix=HEAD
// RUN: sed 's/pipe = 1/pipe = 2/; /head/d' %s | heddle-opt --pipe-schedule | FileCheck %s --check-prefix=EMBEDDING
// RUN: sed 's/pipe = 1/pipe = 2/; s/1f1b/gpipe/' %s | heddle-opt --pipe-schedule --pipe-verify | FileCheck %s --check-prefix=GPIPE
// RUN: sed 's/pipe = 1/pipe = 2/; s/1f1b/zb-h1/' %s | heddle-opt --pipe-schedule --pipe-verify | FileCheck %s --check-prefix=ZERO
// RUN: sed 's/pipe = 1/pipe = 2/; s/1f1b/interleaved/; s/virtual_stages = 1/virtual_stages = 2/' %s | heddle-opt --pipe-schedule --pipe-verify | FileCheck %s --check-prefix=INTERLEAVED
// RUN: sed 's/pipe = 1/pipe = 2/; s/layout = ""/layout = "3,1"/' %s | heddle-opt --pipe-schedule --pipe-verify | FileCheck %s --check-prefix=USER
// RUN: sed 's/pipe = 1/pipe = 3/; s/layout = ""/layout = "E|t*3|tL"/' %s | heddle-opt --pipe-schedule --pipe-verify | FileCheck %s --check-prefix=LAYOUT

// ONE: pipe.stage @stage0 index 0 calls ["h.0", "h.1", "h.2", "h.3"]
// ONE: pipe.schedule @schedule micro_batches 4 ["F0 B0 F1 B1 F2 B2 F3 B3 O"]

// TWO: pipe.stage @stage0 index 0 calls ["h.0", "h.1"]
// TWO: pipe.stage @stage1 index 1 calls ["h.2", "h.3"]
// TWO: pipe.schedule @schedule micro_batches 4 ["F0 F1 B0 F2 B1 F3 B2 B3 O", "F0 B0 F1 B1 F2 B2 F3 B3 O"]

// The head, and the embedding, cost as much as two layers.
// HEAD: pipe.stage @stage0 index 0 calls ["h.0", "h.1", "h.2"]
// HEAD: pipe.stage @stage1 index 1 calls ["h.3"]
// EMBEDDING: pipe.stage @stage0 index 0 calls ["h.0"]
// EMBEDDING: pipe.stage @stage1 index 1 calls ["h.1", "h.2", "h.3"]

// GPIPE: pipe.schedule @schedule micro_batches 4 ["F0 F1 F2 F3 B0 B1 B2 B3 O", "F0 F1 F2 F3 B0 B1 B2 B3 O"]

// ZERO: pipe.schedule @schedule micro_batches 4 ["F0 F1 I0 W0 F2 I1 W1 F3 I2 W2 I3 W3 O", "F0 I0 F1 I1 W0 F2 I2 W1 F3 I3 W2 W3 O"]

// INTERLEAVED: pipe.stage @stage0 index 0 calls ["h.0"]
// INTERLEAVED: pipe.stage @stage1 index 1 calls ["h.1"]
// INTERLEAVED: pipe.stage @stage2 index 2 calls ["h.2"]
// INTERLEAVED: pipe.stage @stage3 index 3 calls ["h.3"]
// INTERLEAVED: pipe.schedule @schedule micro_batches 4 ["F0 F1 F0/1 F1/1 F2 B0/1 F3 B1/1 F2/1 B0 F3/1 B1 B2/1 B3/1 B2 B3 O", "F0 F1 F0/1 B0/1 F1/1 B1/1 F2 B0 F3 B1 F2/1 B2/1 F3/1 B3/1 B2 B3 O"]

// USER: pipe.stage @stage0 index 0 calls ["h.0", "h.1", "h.2"]
// USER: pipe.stage @stage1 index 1 calls ["h.3"]

// LAYOUT: pipe.stage @stage0 index 0 calls []
// LAYOUT: pipe.stage @stage1 index 1 calls ["h.0", "h.1", "h.2"]
// LAYOUT: pipe.stage @stage2 index 2 calls ["h.3"]

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{batch = {global = 4, accumulate = 4}, mesh = {pipe = 1}, pipeline = {virtual_stages = 1, schedule = "1f1b", layout = ""}}>,
    config = "{}", weights = {}} {
  nn.func @layer(%x: tensor<2x64xf32>, %w: tensor<64x64xf32>) -> tensor<2x64xf32> {
    %0 = nn.linear %x, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
    nn.return %0 : tensor<2x64xf32>
  }
  nn.func @layer.backward(%x: tensor<2x64xf32>, %w: tensor<64x64xf32>) -> tensor<2x64xf32> {
    %0 = nn.linear %x, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
    nn.return %0 : tensor<2x64xf32>
  }
  nn.step @train(%x: tensor<2x64xf32>, %w: tensor<64x64xf32>) attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">, #nn.port<value, "w">], outputs = []} {
    nn.micro_batches 4 {
    ^bb0(%i: index):
      %embedding0 = nn.linear %x, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %embedding1 = nn.linear %x, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %0 = nn.call @layer(%x, %w) path "h.0" : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %1 = nn.call @layer(%0, %w) path "h.1" : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %2 = nn.call @layer(%1, %w) path "h.2" : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %3 = nn.call @layer(%2, %w) path "h.3" : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %head0 = nn.linear %x, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %head1 = nn.linear %x, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %head2 = nn.linear %x, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %head3 = nn.linear %x, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %4 = nn.call @layer.backward(%3, %w) path "h.3" : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %5 = nn.call @layer.backward(%4, %w) path "h.2" : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %6 = nn.call @layer.backward(%5, %w) path "h.1" : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %7 = nn.call @layer.backward(%6, %w) path "h.0" : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %embedding2 = nn.linear %x, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %embedding3 = nn.linear %x, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      nn.return
    }
    nn.return
  }
}
