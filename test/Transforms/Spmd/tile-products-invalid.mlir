// RUN: sed 's/TILES/h.*.v*=2/' %s | not heddle-opt --spmd-tile-products 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: sed 's/TILES/h.*.w=3/' %s | not heddle-opt --spmd-tile-products 2>&1 | FileCheck %s --check-prefix=ROWS
// RUN: sed 's/TILES/h.*.w=3/; s/32x32/31x31/g; s/3x5x32/3x5x31/g' %s | not heddle-opt --spmd-tile-products 2>&1 | FileCheck %s --check-prefix=WIDTH
// RUN: sed 's/TILES/h.*.w/' %s | not heddle-opt --spmd-tile-products 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: sed 's/TILES/h.*.w=1/' %s | not heddle-opt --spmd-tile-products 2>&1 | FileCheck %s --check-prefix=TEXT
// RUN: sed 's/TILES/h.[.w=2/' %s | not heddle-opt --spmd-tile-products 2>&1 | FileCheck %s --check-prefix=GLOB
// RUN: sed 's/TILES/h.*.w=2/; s/dist.all_gather/dist.other/; /nn.get @bucket/d; /%f = /d; s/nn.unpack %f.*/nn.get @h.0.w : tensor<32x32xf32>/' %s | heddle-opt --spmd-tile-products 2>&1 | FileCheck %s --check-prefix=HERE

// NONE: error: H0149: --tile h.*.v* matches no weight of a product; there are h.0.w
// ROWS: error: H0149: 32 rows of 32 elements of h.0.w, which 2 ranks gather, are not 3 equal tiles; choose 2, 4, 8, 16
// WIDTH: error: H0149: 31 rows of 31 elements of h.0.w, which 2 ranks gather, are not 3 equal tiles; let --tile leave it out
// TEXT: error: H0148: "h.*.w{{.*}}" of --tile is no PATTERN=N
// TEXT: note: help: give 2 to 1024 tiles, as in h.*.mlp.*=4
// GLOB: error: H0148: "h.[.w=2" of --tile is no pattern
// HERE: warning: --tile has no effect: every rank has these weights in the device's memory; --zero 3 gathers them

nn.model @gathered family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}, tile = ["TILES"]}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @h.0.w role parameter : tensor<32x32xf32> {trainable}
  nn.bucket @bucket [@h.0.w] : tensor<512xf32> {storage = #dist.sharding<[["data"]], unreduced []>, elements = 1024 : i64}
  nn.func @block(%x: tensor<3x5x32xf32>, %w: tensor<32x32xf32>) -> tensor<3x5x32xf32> {
    %0 = nn.linear %x, %w {transposed} : (tensor<3x5x32xf32>, tensor<32x32xf32>) -> tensor<3x5x32xf32>
    nn.return %0 : tensor<3x5x32xf32>
  }
  nn.step @eval(%x: tensor<3x5x32xf32>) -> tensor<3x5x32xf32> attributes {kind = #nn.program<eval>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %p = nn.get @bucket : tensor<512xf32>
    %f = dist.all_gather %p axes ["data"] dim 0 for "h.0.w" : tensor<512xf32> -> tensor<1024xf32>
    %w = nn.unpack %f : (tensor<1024xf32>) -> tensor<32x32xf32>
    %y = nn.call @block(%x, %w) path "h.0" : (tensor<3x5x32xf32>, tensor<32x32xf32>) -> tensor<3x5x32xf32>
    nn.return %y : tensor<3x5x32xf32>
  }
}
