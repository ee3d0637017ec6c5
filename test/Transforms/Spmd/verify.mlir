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

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{data = 2 : i64, batch = 2 : i64}>, config = "{}", weights = {}} {
  nn.func @f(%x: tensor<4xf32>) -> tensor<12xf32> {
    // expected-error @+1 {{H0906: gives 'tensor<12xf32>' from 'tensor<4xf32>' over 2 ranks along ["data"]}}
    %0 = dist.all_gather %x axes ["data"] dim 0 for "x" : tensor<4xf32> -> tensor<12xf32>
    nn.return %0 : tensor<12xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{tensor = 2 : i64}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.state' op has 'tensor<8x12xf32>', which is no rank's part of 'tensor<8x24xf32>' split by #dist.sharding<[[], ["tensor"]], unreduced []> with segments array<i64}}
  nn.state @w role "parameter" : tensor<8x12xf32> {
      whole = tensor<8x24xf32>, segments = array<i64: 100, 8, 8>,
      storage = #dist.sharding<[[], ["tensor"]], unreduced []>}
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{data = 2 : i64, batch = 2 : i64}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.step' op does not say how the port "x" is split: it needs whole and sharding}}
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"],
      result_names = [], ports = {x = {whole = tensor<4x4xf32>}}} {
    nn.return
  }
}
