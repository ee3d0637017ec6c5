// RUN: heddle-opt %s --split-input-file --shard-verify --verify-diagnostics

// expected-error @+1 {{H0904: there is no mesh}}
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    // expected-error @+1 {{H0904: does not say how its results are sharded}}
    %0 = nn.relu %x : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    // expected-error @+1 {{H0904: does not say how its results are sharded}}
    %0 = nn.relu %x {shardings = []} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    // expected-error @+1 {{H0904: a sharding does not fit a result of rank 2}}
    %0 = nn.relu %x {shardings = [#dist.sharding<[["data"]], unreduced []>]} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    // expected-error @+1 {{H0904: a sharding does not fit a result of rank 2}}
    %0 = nn.relu %x {shardings = [unit]} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    // expected-error @+1 {{H0904: names the axis "tensor", which the mesh does not have}}
    %0 = nn.relu %x {shardings = [#dist.sharding<[["data"], ["tensor"]], unreduced []>]} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    // expected-error @+1 {{H0904: names the axis "seq", which the mesh does not have}}
    %0 = nn.relu %x {shardings = [#dist.sharding<[["data"], []], unreduced ["seq"]>]} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.state @s role "accumulator" : tensor<4xf32>
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    %0 = nn.sum_rows %x {shardings = [#dist.sharding<[[]], unreduced ["data"]>]} : (tensor<2x4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{H0904: takes a partial sum}}
    nn.set @s, %0 : tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    %0 = nn.sum_rows %x {shardings = [#dist.sharding<[[]], unreduced ["data"]>]} : (tensor<2x4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{H0904: takes a partial sum}}
    nn.keep %0 as "v" : tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    %0 = nn.sum_rows %x {shardings = [#dist.sharding<[[]], unreduced ["data"]>]} : (tensor<2x4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{H0904: takes a partial sum}}
    %1 = nn.relu %0 {shardings = [#dist.sharding<[[]], unreduced []>]} : tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) -> tensor<4xf32> attributes {kind = "train", arg_names = ["x"], result_names = ["y"]} {
    %0 = nn.sum_rows %x {shardings = [#dist.sharding<[[]], unreduced ["data"]>]} : (tensor<2x4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{H0904: takes a partial sum}}
    nn.return %0 : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = "train", arg_names = ["x"], result_names = []} {
    // expected-error @+1 {{H0904: makes a partial sum over "data" of a value that is none}}
    %0 = dist.reshard %x from <[[]], unreduced []> to <[[]], unreduced ["data"]> for "nn.set" : tensor<4xf32>
    nn.return
  }
}
