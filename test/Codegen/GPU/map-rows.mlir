// RUN: heddle-opt %s -gpu-map-kernels | FileCheck %s

// Element-wise on equal shapes: one long vector, 16 bytes at a time.
// CHECK-LABEL: gpu.func @add(
// CHECK-SAME:    memref<320xbf16>, %{{.*}}: memref<320xbf16>, %{{.*}}: memref<320xbf16>) kernel
// CHECK-SAME:    known_block_size = array<i32: 256, 1, 1>
// CHECK-SAME:    known_grid_size = array<i32: 1, 1, 1>
// CHECK:         vector.load %{{.*}} : memref<320xbf16>, vector<8xbf16>
// CHECK:         vector.store %{{.*}} : memref<320xbf16>, vector<8xbf16>
// CHECK-NOT:     gpu.barrier
plan.kernel @add(%a: tensor<5x64xbf16>, %b: tensor<5x64xbf16>) -> tensor<5x64xbf16>
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
  %s = nn.add %a, %b : tensor<5x64xbf16>
  plan.yield %s : tensor<5x64xbf16>
}

// A tied result has no buffer of its own.
// CHECK-LABEL: gpu.func @tied(
// CHECK-SAME:    %[[A:.*]]: memref<8xf32>, %{{.*}}: memref<8xf32>) kernel
// CHECK:         vector.store %{{.*}}, %[[A]]
plan.kernel @tied(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32>
    attributes {generator = #plan.generator<rows>, ties = array<i64: 0>} {
  %s = nn.add %a, %b : tensor<8xf32>
  plan.yield %s : tensor<8xf32>
}

// Two reductions, each by shuffles and workgroup memory; then the results. The
// math is expanded: nothing calls a library.
// CHECK-LABEL: gpu.func @norm(
// CHECK-SAME:    workgroup(%{{.*}} : memref<3xf32, #gpu.address_space<workgroup>>
// CHECK-SAME:    known_block_size = array<i32: 96, 1, 1>
// CHECK-SAME:    known_grid_size = array<i32: 2, 1, 1>
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK:         gpu.barrier
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK:         gpu.barrier
// CHECK:         math.sqrt
// CHECK:         vector.store %{{.*}} : memref<2x768xbf16>, vector<8xbf16>
// CHECK:         memref.store %{{.*}} : memref<2xf32>
plan.kernel @norm(%x: tensor<2x768xbf16>, %w: tensor<768xbf16>, %b: tensor<768xbf16>)
    -> (tensor<2x768xbf16>, tensor<2xf32>, tensor<2xf32>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1, -1>} {
  %y, %m, %s = nn.layer_norm %x, %w, %b {eps = 1.0e-5 : f64}
      : (tensor<2x768xbf16>, tensor<768xbf16>, tensor<768xbf16>)
      -> (tensor<2x768xbf16>, tensor<2xf32>, tensor<2xf32>)
  plan.yield %y, %m, %s : tensor<2x768xbf16>, tensor<2xf32>, tensor<2xf32>
}

// CHECK-LABEL: gpu.func @gelu(
// CHECK-NOT:     math.tanh
// CHECK:         gpu.return
plan.kernel @gelu(%x: tensor<16xf32>) -> tensor<16xf32>
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
  %g = nn.map gelu_tanh(%x) : tensor<16xf32>
  plan.yield %g : tensor<16xf32>
}

// Random numbers come in blocks of four elements: a chunk of eight needs two,
// and the word of each element in its block is known.
// CHECK-LABEL: gpu.func @dropout(
// CHECK-DAG:     arith.constant dense<[0, 0, 0, 0, 1, 1, 1, 1]> : vector<8xi64>
// CHECK-DAG:     arith.constant dense<[true, false, false, false, true, false, false, false]> : vector<8xi1>
plan.kernel @dropout(%x: tensor<2x6x64xbf16>, %rng: tensor<4xi32>, %layer: index, %mb: index) -> tensor<2x6x64xbf16>
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
  %d = nn.dropout %x rng %rng layer %layer micro_batch %mb {p = 2.500000e-01 : f64, site = 7 : i32}
      : (tensor<2x6x64xbf16>, tensor<4xi32>, index, index) -> tensor<2x6x64xbf16>
  plan.yield %d : tensor<2x6x64xbf16>
}

// An odd length is no multiple of the chunk: each element has a block.
// CHECK-LABEL: gpu.func @odd_dropout(
// CHECK-NOT:     dense<[0, 0, 0, 0, 1, 1, 1, 1]>
plan.kernel @odd_dropout(%x: tensor<2x6x65xbf16>, %rng: tensor<4xi32>, %layer: index, %mb: index) -> tensor<2x6x65xbf16>
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
  %d = nn.dropout %x rng %rng layer %layer micro_batch %mb {p = 2.500000e-01 : f64, site = 7 : i32}
      : (tensor<2x6x65xbf16>, tensor<4xi32>, index, index) -> tensor<2x6x65xbf16>
  plan.yield %d : tensor<2x6x65xbf16>
}

// A sum that the norm and the caller need is made and stored once; threads keep
// their part of it from round to round.
// CHECK-LABEL: gpu.func @residual(
// CHECK-SAME:    %[[A:[^:]*]]: memref<2x768xbf16>, %[[B:[^:]*]]: memref<2x768xbf16>, {{.*}} %[[SUM:[^:]*]]: memref<2x768xbf16>, %[[Y:[^:]*]]: memref<2x768xbf16>) workgroup
// CHECK-DAG:     vector.load %[[A]]
// CHECK-DAG:     vector.load %[[B]]
// CHECK:         vector.store %{{.*}}, %[[SUM]]
// CHECK-NOT:     vector.load %[[A]]
// CHECK-NOT:     vector.load %[[SUM]]
// CHECK:         gpu.barrier
// CHECK-NOT:     vector.load %[[SUM]]
// CHECK:         gpu.barrier
// CHECK-NOT:     vector.load %[[SUM]]
// CHECK:         vector.store %{{.*}}, %[[Y]]
// CHECK:         gpu.return
plan.kernel @residual(%a: tensor<2x768xbf16>, %b: tensor<2x768xbf16>, %w: tensor<768xbf16>, %c: tensor<768xbf16>)
    -> (tensor<2x768xbf16>, tensor<2x768xbf16>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
  %s = nn.add %a, %b : tensor<2x768xbf16>
  %y, %m, %r = nn.layer_norm %s, %w, %c {eps = 1.0e-5 : f64}
      : (tensor<2x768xbf16>, tensor<768xbf16>, tensor<768xbf16>)
      -> (tensor<2x768xbf16>, tensor<2xf32>, tensor<2xf32>)
  plan.yield %s, %y : tensor<2x768xbf16>, tensor<2x768xbf16>
}

// Two reductions that do not need each other share a round and a barrier, and
// what is one number per row is loaded before it. Each row is loaded once.
// CHECK-LABEL: gpu.func @norm_grad(
// CHECK-SAME:    %[[MEAN:[^:]*]]: memref<2xf32>, %[[RSTD:[^:]*]]: memref<2xf32>
// CHECK:         scf.for
// CHECK-COUNT-2: vector.load %{{.*}} : memref<2x768xbf16>
// CHECK-DAG:     memref.load %[[MEAN]]
// CHECK-DAG:     memref.load %[[RSTD]]
// CHECK-COUNT-10: gpu.shuffle xor
// CHECK:         gpu.barrier
// CHECK-NOT:     gpu.barrier
// CHECK-NOT:     vector.load %{{.*}} : memref<2x768xbf16>
// CHECK:         vector.store
// CHECK:         gpu.return
plan.kernel @norm_grad(%g: tensor<2x768xbf16>, %x: tensor<2x768xbf16>, %w: tensor<768xbf16>, %m: tensor<2xf32>, %r: tensor<2xf32>)
    -> tensor<2x768xbf16>
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
  %d = nn.layer_norm_grad_input %g, %x, %w, %m, %r
      : (tensor<2x768xbf16>, tensor<2x768xbf16>, tensor<768xbf16>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x768xbf16>
  plan.yield %d : tensor<2x768xbf16>
}

// Where a block has several long rows, it loads the weight before them.
// CHECK-LABEL: gpu.func @many_rows(
// CHECK-SAME:    known_grid_size = array<i32: 683, 1, 1>
// CHECK:         vector.load %{{.*}} : memref<4096xbf16>
// CHECK:         scf.for
// CHECK-NOT:     memref<4096xbf16>
// CHECK:         gpu.return
plan.kernel @many_rows(%x: tensor<4096x4096xbf16>, %w: tensor<4096xbf16>) -> (tensor<4096x4096xbf16>, tensor<4096xf32>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
  %y, %s = nn.rms_norm %x, %w {eps = 1.0e-5 : f64}
      : (tensor<4096x4096xbf16>, tensor<4096xbf16>) -> (tensor<4096x4096xbf16>, tensor<4096xf32>)
  plan.yield %y, %s : tensor<4096x4096xbf16>, tensor<4096xf32>
}

// 64 KiB of a row stay in registers, of 512 threads; up to 160 KiB in workgroup
// memory. Longer ones are read again.
// CHECK-LABEL: gpu.func @longest_kept(
// CHECK-SAME:    known_block_size = array<i32: 512, 1, 1>
// CHECK:         scf.for
// CHECK-NOT:     scf.for
// CHECK-LABEL: gpu.func @longer(
// CHECK-SAME:    %{{.*}}: memref<16388xf32>, %[[Y:[^:]*]]: memref<2x16388xf32>
// CHECK-SAME:    known_block_size = array<i32: 1024, 1, 1>
// CHECK:         gpu.dynamic_shared_memory
// CHECK:         scf.for
// CHECK:           scf.for
// CHECK:             vector.store {{.*}} memref<17412xf32, #gpu.address_space<workgroup>>
// CHECK:           scf.for
// CHECK:             vector.load {{.*}} memref<17412xf32, #gpu.address_space<workgroup>>
// CHECK:             vector.store {{.*}}, %[[Y]]
// CHECK-LABEL: gpu.func @read_again(
// CHECK-SAME:    known_block_size = array<i32: 256, 1, 1>
// CHECK:         scf.for
// CHECK-COUNT-2:   scf.for
plan.kernel @longest_kept(%x: tensor<2x16384xf32>, %w: tensor<16384xf32>) -> (tensor<2x16384xf32>, tensor<2xf32>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
  %y, %s = nn.rms_norm %x, %w {eps = 1.0e-5 : f64}
      : (tensor<2x16384xf32>, tensor<16384xf32>) -> (tensor<2x16384xf32>, tensor<2xf32>)
  plan.yield %y, %s : tensor<2x16384xf32>, tensor<2xf32>
}
plan.kernel @longer(%x: tensor<2x16388xf32>, %w: tensor<16388xf32>) -> (tensor<2x16388xf32>, tensor<2xf32>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
  %y, %s = nn.rms_norm %x, %w {eps = 1.0e-5 : f64}
      : (tensor<2x16388xf32>, tensor<16388xf32>) -> (tensor<2x16388xf32>, tensor<2xf32>)
  plan.yield %y, %s : tensor<2x16388xf32>, tensor<2xf32>
}
plan.kernel @read_again(%x: tensor<2x40960xf32>, %w: tensor<40960xf32>) -> (tensor<2x40960xf32>, tensor<2xf32>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
  %y, %s = nn.rms_norm %x, %w {eps = 1.0e-5 : f64}
      : (tensor<2x40960xf32>, tensor<40960xf32>) -> (tensor<2x40960xf32>, tensor<2xf32>)
  plan.yield %y, %s : tensor<2x40960xf32>, tensor<2xf32>
}

// The loss reads the sum of another thread's column: not before that is there,
// even where one warp has the row and no reduction needs a barrier.
// CHECK-LABEL: gpu.func @loss(
// CHECK-SAME:    %[[SUM:[^:]*]]: memref<3x64xf32>) kernel
// CHECK:         vector.store %{{.*}}, %[[SUM]]
// CHECK:         gpu.barrier
// CHECK:         memref.load %[[SUM]]
// CHECK:         gpu.return
plan.kernel @loss(%x: tensor<3x64xf32>, %y: tensor<3x64xf32>, %l: tensor<3xi32>) -> (tensor<3xf32>, tensor<3x64xf32>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
  %s = nn.add %x, %y : tensor<3x64xf32>
  %loss, %lse = nn.cross_entropy %s, %l : (tensor<3x64xf32>, tensor<3xi32>) -> (tensor<3xf32>, tensor<3xf32>)
  plan.yield %loss, %s : tensor<3xf32>, tensor<3x64xf32>
}

// Long rows of an odd length begin anywhere in 16 bytes: what lies before and
// behind the whole chunks of a row is accessed one by one. The weight begins
// elsewhere than the rows: it has no chunks.
// CHECK-LABEL: gpu.func @odd_rows(
// CHECK-SAME:    %[[X:[a-z0-9]+]]: memref<4x1601xbf16>, %[[W:[a-z0-9]+]]: memref<1601xbf16>, %[[Y:[a-z0-9]+]]: memref<4x1601xbf16>
// CHECK-NOT:     vector.load %[[W]]
// CHECK:         vector.load %[[X]]{{.*}} vector<8xbf16>
// CHECK:         scf.if
// CHECK-NEXT:      memref.load %[[X]]
// CHECK:         vector.store %{{.*}}, %[[Y]]{{.*}} vector<8xbf16>
// CHECK:         memref.store %{{.*}}, %[[Y]]
plan.kernel @odd_rows(%x: tensor<4x1601xbf16>, %w: tensor<1601xbf16>) -> (tensor<4x1601xbf16>, tensor<4xf32>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
  %y, %s = nn.rms_norm %x, %w {eps = 1.0e-5 : f64}
      : (tensor<4x1601xbf16>, tensor<1601xbf16>) -> (tensor<4x1601xbf16>, tensor<4xf32>)
  plan.yield %y, %s : tensor<4x1601xbf16>, tensor<4xf32>
}

// Fewer elements than a chunk: no loop over chunks.
// CHECK-LABEL: gpu.func @scalar(
// CHECK-NOT:     scf.for
// CHECK:         memref.store
// CHECK:         gpu.return
plan.kernel @scalar(%x: tensor<f32>) -> tensor<f32>
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1>} {
  %y = nn.map relu(%x) : tensor<f32>
  plan.yield %y : tensor<f32>
}

// A warp sums its rows in registers, two of sixteen that the block has. At the
// end the sums of the eight warps are added up, 256 columns at a time, and make
// the block's part; a second launch adds up the parts.
// CHECK-LABEL: gpu.func @norm_gradients(
// CHECK-SAME:    %[[PARTS:[a-z0-9]+]]: memref<12288xi8>) workgroup
// CHECK-SAME:    %[[MEMORY:[a-z0-9]+]] : memref<2x8x256xf32, #gpu.address_space<workgroup>>
// CHECK-SAME:    known_block_size = array<i32: 256, 1, 1>
// CHECK-SAME:    known_grid_size = array<i32: 2, 1, 1>
// CHECK:         scf.for %{{.*}} to %c20 step %c16 iter_args(%{{.*}}) -> (vector<8xf32>, vector<8xf32>, vector<8xf32>,
// CHECK-NOT:     gpu.barrier
// CHECK:         vector.store %{{.*}} : memref<20x768xbf16>, vector<8xbf16>
// CHECK-NOT:     gpu.barrier
// CHECK:         scf.yield %{{.*}} : vector<8xf32>, vector<8xf32>, vector<8xf32>
// CHECK:         vector.store %{{.*}}, %[[MEMORY]]
// CHECK:         gpu.barrier
// CHECK-COUNT-16: memref.load %[[MEMORY]]
// CHECK:         memref.view %[[PARTS]][%{{.*}}][] : memref<12288xi8> to memref<2x768xf32>
// CHECK:         memref.store %{{.*}} : memref<2x768xf32>
// CHECK:         gpu.barrier
// CHECK:         vector.store %{{.*}}, %[[MEMORY]]
// CHECK-LABEL: gpu.func @norm_gradients_sum(
// CHECK-SAME:    known_grid_size = array<i32: 96, 1, 1>
// CHECK:         memref.store %{{.*}} : memref<768xf32>
// CHECK-NOT:     memref<20x768xbf16>, vector
plan.kernel @norm_gradients(%g: tensor<20x768xbf16>, %x: tensor<20x768xbf16>, %w: tensor<768xbf16>, %m: tensor<20xf32>, %s: tensor<20xf32>)
    -> (tensor<20x768xbf16>, tensor<768xf32>, tensor<768xf32>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1, -1>} {
  %d = nn.layer_norm_grad_input %g, %x, %w, %m, %s
      : (tensor<20x768xbf16>, tensor<20x768xbf16>, tensor<768xbf16>, tensor<20xf32>, tensor<20xf32>) -> tensor<20x768xbf16>
  %dw, %db = nn.layer_norm_grad_weight %g, %x, %m, %s
      : (tensor<20x768xbf16>, tensor<20x768xbf16>, tensor<20xf32>, tensor<20xf32>) -> (tensor<768xf32>, tensor<768xf32>)
  plan.yield %d, %dw, %db : tensor<20x768xbf16>, tensor<768xf32>, tensor<768xf32>
}

// Rows that a warp has no registers for: a block sums its fifteen one after the
// other, and writes its part in two strips of four columns for each thread.
// CHECK-LABEL: gpu.func @wide_norm_gradients(
// CHECK-SAME:    %[[PARTS:[a-z0-9]+]]: memref<32768xi8>) workgroup
// CHECK-SAME:    known_block_size = array<i32: 256, 1, 1>
// CHECK-SAME:    known_grid_size = array<i32: 2, 1, 1>
// CHECK:         %[[SUM:.*]]:2 = scf.for {{.*}} -> (vector<8xf32>, vector<8xf32>)
// CHECK:         gpu.barrier
// CHECK-COUNT-2: arith.addf %{{.*}} : vector<8xf32>
// CHECK:         vector.store %{{.*}} : memref<20x2048xbf16>, vector<8xbf16>
// CHECK:         gpu.barrier
// CHECK-NEXT:    scf.yield
// CHECK:         memref.view %[[PARTS]][%{{.*}}][] : memref<32768xi8> to memref<2x2x1024xf32>
// CHECK-COUNT-4: vector.store %{{.*}} : memref<2x2x1024xf32>, vector<4xf32>
// CHECK-NOT:     vector.store
// CHECK-LABEL: gpu.func @wide_norm_gradients_sum(
plan.kernel @wide_norm_gradients(%g: tensor<20x2048xbf16>, %x: tensor<20x2048xbf16>, %w: tensor<2048xbf16>, %m: tensor<20xf32>, %s: tensor<20xf32>)
    -> (tensor<20x2048xbf16>, tensor<2048xf32>, tensor<2048xf32>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1, -1>} {
  %d = nn.layer_norm_grad_input %g, %x, %w, %m, %s
      : (tensor<20x2048xbf16>, tensor<20x2048xbf16>, tensor<2048xbf16>, tensor<20xf32>, tensor<20xf32>) -> tensor<20x2048xbf16>
  %dw, %db = nn.layer_norm_grad_weight %g, %x, %m, %s
      : (tensor<20x2048xbf16>, tensor<20x2048xbf16>, tensor<20xf32>, tensor<20xf32>) -> (tensor<2048xf32>, tensor<2048xf32>)
  plan.yield %d, %dw, %db : tensor<20x2048xbf16>, tensor<2048xf32>, tensor<2048xf32>
}

// Many short rows: each is a warp's. A block brings the weights to workgroup
// memory once; from there on no warp waits for another.
// CHECK-LABEL: gpu.func @short(
// CHECK-SAME:    workgroup(%[[W:[a-z0-9]+]] : memref<768xbf16, #gpu.address_space<workgroup>>
// CHECK-SAME:    known_block_size = array<i32: 256, 1, 1>
// CHECK-SAME:    known_grid_size = array<i32: 129, 1, 1>
// CHECK:         vector.store %{{.*}}, %[[W]]
// CHECK:         gpu.barrier
// CHECK:         scf.for
// CHECK-NOT:     gpu.barrier
// CHECK:         gpu.shuffle xor
// CHECK-NOT:     gpu.barrier
// CHECK:         vector.load %[[W]]
// CHECK-NOT:     gpu.barrier
// CHECK:         gpu.return
plan.kernel @short(%x: tensor<1031x768xbf16>, %w: tensor<768xbf16>) -> (tensor<1031x768xbf16>, tensor<1031xf32>)
    attributes {generator = #plan.generator<rows>, ties = array<i64: -1, -1>} {
  %y, %s = nn.rms_norm %x, %w {eps = 1.0e-5 : f64} : (tensor<1031x768xbf16>, tensor<768xbf16>) -> (tensor<1031x768xbf16>, tensor<1031xf32>)
  plan.yield %y, %s : tensor<1031x768xbf16>, tensor<1031xf32>
}
