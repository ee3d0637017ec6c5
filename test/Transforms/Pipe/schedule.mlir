// RUN: heddle-opt %s --pipe-schedule --pipe-verify | FileCheck %s --check-prefix=ONE
// RUN: sed 's/pipe = 1/pipe = 2/' %s | heddle-opt --pipe-schedule --pipe-verify | FileCheck %s --check-prefix=TWO
// RUN: sed 's/pipe = 1/pipe = 2/; s/1f1b/gpipe/' %s | heddle-opt --pipe-schedule --pipe-verify | FileCheck %s --check-prefix=GPIPE
// RUN: sed 's/pipe = 1/pipe = 4/' %s | heddle-opt --pipe-schedule --pipe-verify | FileCheck %s --check-prefix=FOUR
// RUN: sed 's/1f1b/zb-h1/' %s | not heddle-opt --pipe-schedule 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// ONE: pipe.stage @stage0 index 0 calls ["h.0", "h.1", "h.2"]
// ONE: pipe.schedule @schedule kind "1f1b" micro_batches 3 ["F0 B0 F1 B1 F2 B2 O"]

// The last layer costs as much as the first two.
// TWO: pipe.stage @stage0 index 0 calls ["h.0", "h.1"]
// TWO: pipe.stage @stage1 index 1 calls ["h.2"]
// TWO: pipe.schedule @schedule kind "1f1b" micro_batches 3 ["F0 F1 B0 F2 B1 B2 O", "F0 B0 F1 B1 F2 B2 O"]

// GPIPE: pipe.schedule @schedule kind "gpipe" micro_batches 3 ["F0 F1 F2 B0 B1 B2 O", "F0 F1 F2 B0 B1 B2 O"]

// FOUR: pipe.stage @stage0 index 0 calls ["h.0"]
// FOUR: pipe.stage @stage1 index 1 calls ["h.1"]

// UNKNOWN: error: H0111: unknown schedule "zb-h1"; known are gpipe, 1f1b

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{batch = 3 : i64, accumulate = 3 : i64,
                               pipe = 1 : i64, schedule = "1f1b"}>,
    config = "{}", weights = {}} {
  nn.func @narrow(%x: tensor<2x64xf32>, %w: tensor<64x64xf32>) -> tensor<2x64xf32> {
    %0 = nn.linear %x, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
    nn.return %0 : tensor<2x64xf32>
  }
  nn.func @wide(%x: tensor<2x64xf32>, %w: tensor<64x64xf32>) -> tensor<2x64xf32> {
    %0 = nn.linear %x, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
    %1 = nn.linear %0, %w : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
    nn.return %1 : tensor<2x64xf32>
  }
  nn.step @train(%x: tensor<2x64xf32>, %w: tensor<64x64xf32>) attributes {
      kind = "train", arg_names = ["x", "w"], result_names = []} {
    nn.micro_batches 3 {
    ^bb0(%i: index):
      %0 = nn.call @narrow(%x, %w) path "h.0" : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %1 = nn.call @narrow(%0, %w) path "h.1" : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      %2 = nn.call @wide(%1, %w) path "h.2" : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      // The backward pass of an instance is in its stage.
      %3 = nn.call @narrow(%2, %w) path "h.0" : (tensor<2x64xf32>, tensor<64x64xf32>) -> tensor<2x64xf32>
      nn.return
    }
    nn.return
  }
}
