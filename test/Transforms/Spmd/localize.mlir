// RUN: heddle-opt %s --split-input-file --spmd-localize --spmd-verify | FileCheck %s

// Rows are split: every reshard becomes the cheapest collective, and shapes are
// those of one rank.

// CHECK-LABEL: nn.model @reshards
nn.model @reshards family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = 2 : i64, data = 2 : i64}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 2>]
  // CHECK: nn.step @train(%[[X:[^:]*]]: tensor<2x8xf32>
  // CHECK-SAME: ports = {x = {sharding = #dist.sharding<{{\[\[}}"data"], []], unreduced []>, whole = tensor<4x8xf32>}}
  nn.step @train(%x: tensor<4x8xf32>) attributes {kind = "train", arg_names = ["x"], result_names = [],
      arg_shardings = [#dist.sharding<[["data"], []], unreduced []>], result_shardings = []} {
    // CHECK: %[[PART:.*]] = nn.sum_rows %[[X]] : (tensor<2x8xf32>) -> tensor<8xf32>
    %0 = nn.sum_rows %x {shardings = [#dist.sharding<[[]], unreduced ["data"]>]} : (tensor<4x8xf32>) -> tensor<8xf32>
    // CHECK: dist.all_reduce %[[PART]] axes ["data"] for "a" : tensor<8xf32> -> tensor<8xf32>
    %1 = dist.reshard %0 from <[[]], unreduced ["data"]> to <[[]], unreduced []> for "a" : tensor<8xf32>
    // CHECK: %[[SPLIT:.*]] = dist.reduce_scatter %[[PART]] axes ["data"] dim 0 for "b" : tensor<8xf32> -> tensor<4xf32>
    %2 = dist.reshard %0 from <[[]], unreduced ["data"]> to <[["data"]], unreduced []> for "b" : tensor<8xf32>
    // CHECK: dist.all_gather %[[SPLIT]] axes ["data"] dim 0 for "c" : tensor<4xf32> -> tensor<8xf32>
    %3 = dist.reshard %2 from <[["data"]], unreduced []> to <[[]], unreduced []> for "c" : tensor<8xf32>
    // CHECK: dist.slice %{{.*}} axes ["data"] dim 0 for "d" : tensor<8xf32> -> tensor<4xf32>
    %4 = dist.reshard %1 from <[[]], unreduced []> to <[["data"]], unreduced []> for "d" : tensor<8xf32>
    // CHECK: dist.all_to_all %[[X]] axes ["data"] split 1 concat 0 for "e" : tensor<2x8xf32> -> tensor<4x4xf32>
    %5 = dist.reshard %x from <[["data"], []], unreduced []> to <[[], ["data"]], unreduced []> for "e" : tensor<4x8xf32>
    nn.return
  }
}

// -----

// What a rank computes depends on its number, and the program does not: random
// numbers, rows of a vocabulary and positions get the number as an operand.

// CHECK-LABEL: nn.model @parts
nn.model @parts family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = 2 : i64, data = 2 : i64, tensor = 2 : i64}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 2>]
  // CHECK: nn.state @w role "parameter" : tensor<4x6xf32>
  // CHECK-SAME: whole = tensor<7x6xf32>
  nn.state @w role "parameter" : tensor<7x6xf32> {storage = #dist.sharding<[["tensor"], []], unreduced []>}
  nn.step @train(%ids: tensor<4x3xi32>, %rng: tensor<4xi32>) attributes {kind = "train", arg_names = ["ids", "rng"], result_names = [],
      arg_shardings = [#dist.sharding<[["data"], []], unreduced []>, #dist.sharding<[[]], unreduced []>], result_shardings = []} {
    %w = nn.get @w : tensor<7x6xf32>
    // CHECK: %[[T:.*]] = dist.rank ["tensor"] : index
    // CHECK: %[[FIRST:.*]] = arith.muli %[[T]], %{{.*}} : index
    // CHECK: nn.embedding %{{.*}}[%{{.*}}] first %[[FIRST]] : (tensor<4x6xf32>, tensor<2x3xi32>, index) -> tensor<2x3x6xf32>
    %x = nn.embedding %w[%ids] {shardings = [#dist.sharding<[["data"], [], []], unreduced ["tensor"]>]} : (tensor<7x6xf32>, tensor<4x3xi32>) -> tensor<4x3x6xf32>
    %y = dist.reshard %x from <[["data"], [], []], unreduced ["tensor"]> to <[["data"], [], []], unreduced []> for "nn.dropout" : tensor<4x3x6xf32>
    %i = arith.constant 0 : index
    // CHECK: %[[D:.*]] = dist.rank ["data"] : index
    // CHECK: %[[ROW:.*]] = arith.addi %{{.*}}, %[[D]] : index
    // CHECK: nn.dropout %{{.*}} rng %{{.*}} layer %{{.*}} micro_batch %[[ROW]]
    %z = nn.dropout %y rng %rng layer %i micro_batch %i {p = 0.1 : f64, site = 3 : i32, shardings = [#dist.sharding<[["data"], [], []], unreduced []>]} : (tensor<4x3x6xf32>, tensor<4xi32>, index, index) -> tensor<4x3x6xf32>
    nn.return
  }
}

// -----

// A bucket that is split over replicas: equal parts of whole blocks of 64.

// CHECK-LABEL: nn.model @bucket
nn.model @bucket family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = 2 : i64, data = 2 : i64}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @w role "parameter" : tensor<3x5xf32> {trainable}
  nn.state @b role "parameter" : tensor<100xf32> {trainable}
  // CHECK: nn.bucket @p [@w, @b] : tensor<128xf32>
  // CHECK-SAME: elements = 256
  nn.bucket @p [@w, @b] : tensor<256xf32> {storage = #dist.sharding<[["data"]], unreduced []>}
  nn.step @train() attributes {kind = "train", arg_names = [], result_names = [], arg_shardings = [], result_shardings = []} {
    // CHECK: %[[P:.*]] = nn.get @p : tensor<128xf32>
    %p = nn.get @p : tensor<256xf32>
    // CHECK: %[[ALL:.*]] = dist.all_gather %[[P]] axes ["data"] dim 0 for "h.0" : tensor<128xf32> -> tensor<256xf32>
    %all = dist.reshard %p from <[["data"]], unreduced []> to <[[]], unreduced []> for "h.0" : tensor<256xf32>
    // CHECK: nn.unpack %[[ALL]] : (tensor<256xf32>) -> (tensor<3x5xf32>, tensor<100xf32>)
    %w, %b = nn.unpack %all {shardings = [#dist.sharding<[[], []], unreduced []>, #dist.sharding<[[]], unreduced []>]} : (tensor<256xf32>) -> (tensor<3x5xf32>, tensor<100xf32>)
    nn.return
  }
}
