// RUN: heddle-opt %s --split-input-file --shard-verify --verify-diagnostics

// expected-error @+1 {{H0904: there is no mesh}}
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{H0904: does not say how its results are sharded}}
    %0 = nn.map relu(%x) : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{'nn.map' op has 0 shardings for 1 values}}
    %0 = nn.map relu(%x) {shardings = []} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{'nn.map' op has #dist.sharding<[["data"]], unreduced []> for a value of rank 2}}
    %0 = nn.map relu(%x) {shardings = [#dist.sharding<[["data"]], unreduced []>]} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{'nn.map' op has unit, not the sharding of a 'tensor<2x4xf32>'}}
    %0 = nn.map relu(%x) {shardings = [unit]} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{'nn.map' op names the axis "tensor", which the mesh does not have}}
    %0 = nn.map relu(%x) {shardings = [#dist.sharding<[["data"], ["tensor"]], unreduced []>]} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{'nn.map' op names the axis "seq", which the mesh does not have}}
    %0 = nn.map relu(%x) {shardings = [#dist.sharding<[["data"], []], unreduced ["seq"]>]} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.state @s role accumulator : tensor<4xf32>
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
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
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
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
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    %0 = nn.sum_rows %x {shardings = [#dist.sharding<[[]], unreduced ["data"]>]} : (tensor<2x4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{H0904: takes a partial sum}}
    %1 = nn.map relu(%0) {shardings = [#dist.sharding<[[]], unreduced []>]} : tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<2x4xf32>) -> tensor<4xf32> attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %0 = nn.sum_rows %x {shardings = [#dist.sharding<[[]], unreduced ["data"]>]} : (tensor<2x4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{H0904: takes a partial sum}}
    nn.return %0 : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.step @train(%x: tensor<4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{H0904: makes a partial sum over "data" of a value that is none}}
    %0 = dist.reshard %x from <[[]], unreduced []> to <[[]], unreduced ["data"]> for "nn.set" : tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {data = 4}, batch = {global = 4}}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0904: is not the mesh of the strategy: pipe 1, data 4, seq 1, tensor 1}}
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
}

// -----

// What comes by nn.pack is a partial sum, too.
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.step @train(%x: tensor<64xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    %0 = nn.square_sums %x {shardings = [#dist.sharding<[[]], unreduced ["data"]>]} : (tensor<64xf32>) -> tensor<1xf32>
    %1 = nn.pack %0 : (tensor<1xf32>) -> tensor<64xf32>
    // expected-error @+1 {{H0904: takes a partial sum over "data"}}
    %2 = nn.global_norm %1 {shardings = [#dist.sharding<[], unreduced []>], summed} : (tensor<64xf32>) -> tensor<f32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.step @eval(%x: tensor<4xf32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{H0904: takes a value that is sharded as #dist.sharding<[[]], unreduced []>; it counts on #dist.sharding<[["data"]], unreduced []>}}
    %0 = dist.reshard %x from <[["data"]], unreduced []> to <[[]], unreduced []> for "x" : tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.step @eval(%x: tensor<4xf32>) attributes {kind = #nn.program<eval>, inputs = [#nn.port<value, "x">], outputs = []} {
    // expected-error @+1 {{H0904: has the factor b split over [] and over ["data"]}}
    %0 = nn.map relu(%x) {shardings = [#dist.sharding<[["data"]], unreduced []>]} : tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {data = 2}, batch = {global = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @w role parameter : tensor<64xf32>
  nn.bucket @parameters [@w] : tensor<128xf32> {storage = #dist.sharding<[["data"]], unreduced []>}
  nn.step @eval() attributes {kind = #nn.program<eval>, inputs = [], outputs = []} {
    // expected-error @+1 {{H0904: @w is split over ranks as a part of its bucket}}
    %0 = nn.get @w : tensor<64xf32>
    nn.keep %0 as "w" : tensor<64xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 2>]
  nn.state @w role parameter : tensor<4x4xf32> {storage = #dist.sharding<[["tensor"], []], unreduced []>}
  nn.step @train(%x: tensor<2x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    %w = nn.get @w : tensor<4x4xf32>
    %p = dist.reshard %x from <[[], []], unreduced []> to <[[], ["tensor"]], unreduced []> for "nn.linear" : tensor<2x4xf32>
    %s = nn.linear %p, %w {shardings = [#dist.sharding<[[], []], unreduced ["tensor"]>]} : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    // expected-error @+1 {{H0904: adds a value to a partial sum over "tensor"}}
    %0 = nn.add %s, %x {shardings = [#dist.sharding<[[], []], unreduced ["tensor"]>]} : tensor<2x4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {tensor = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 2>]
  nn.step @train() attributes {kind = #nn.program<train>, inputs = [], outputs = []} {
    %0 = nn.fill 0.0 {shardings = [#dist.sharding<[], unreduced ["tensor"]>]} : () -> tensor<f32>
    // expected-error @+1 {{H0904: is a partial sum over ["tensor"]: every rank would add its value}}
    %1 = nn.fill 1.0 {shardings = [#dist.sharding<[], unreduced ["tensor"]>]} : () -> tensor<f32>
    nn.return
  }
}
