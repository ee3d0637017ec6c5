// RUN: heddle-opt %s --split-input-file --spmd-localize --verify-diagnostics

// A part along an inner dimension of what every rank holds lies in pieces.

nn.model @m family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = 2 : i64, data = 2 : i64}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.step @train(%x: tensor<4x8xf32>) attributes {kind = "train", arg_names = ["x"], result_names = [],
      arg_shardings = [#dist.sharding<[[], []], unreduced []>], result_shardings = []} {
    // expected-error @+1 {{H0202: asks for a part along dimension 1 of a value that every rank holds whole; only parts along the first dimension can be taken}}
    %0 = dist.reshard %x from <[[], []], unreduced []> to <[[], ["data"]], unreduced []> for "nn.relu" : tensor<4x8xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{batch = 2 : i64, data = 2 : i64, tensor = 2 : i64}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 2>, #dist.axis<"tensor" = 2>]
  nn.step @train(%x: tensor<4x6x8xf32>, %rng: tensor<4xi32>) attributes {kind = "train", arg_names = ["x", "rng"], result_names = [],
      arg_shardings = [#dist.sharding<[["data"], ["seq"], ["tensor"]], unreduced []>, #dist.sharding<[[]], unreduced []>], result_shardings = []} {
    %i = arith.constant 0 : index
    // expected-error @+1 {{H0202: random numbers for a tensor that is split along several dimensions}}
    %z = nn.dropout %x rng %rng layer %i micro_batch %i {p = 0.1 : f64, site = 3 : i32, shardings = [#dist.sharding<[["data"], ["seq"], ["tensor"]], unreduced []>]} : (tensor<4x6x8xf32>, tensor<4xi32>, index, index) -> tensor<4x6x8xf32>
    nn.return
  }
}
