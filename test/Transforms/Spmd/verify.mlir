// RUN: heddle-opt %s --split-input-file --spmd-verify --verify-diagnostics

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    // expected-error @+1 {{H0906: a sharding is left}}
    %0 = nn.relu %x {shardings = [#dist.sharding<[[], []], unreduced []>]} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    // expected-error @+1 {{H0906: a sharding is left}}
    %0 = dist.reshard %x from <[["data"], []], unreduced []> to <[[], []], unreduced []> for "x" : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0906: a sharding is left}}
  nn.func @f() attributes {arg_shardings = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0906: a sharding is left}}
  nn.step @eval() attributes {kind = "eval", arg_names = [], result_names = [], result_shardings = []} {
    nn.return
  }
}
