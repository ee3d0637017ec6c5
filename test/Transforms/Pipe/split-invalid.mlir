// RUN: heddle-opt %s --split-input-file --pipe-split --verify-diagnostics

// expected-error @+1 {{H0905: the model has no schedule}}
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.stage @stage1 index 1 calls ["h.1"]
  nn.step @generate(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kind = #nn.program<generate>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    nn.return %x : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.stage @stage1 index 1 calls ["h.1"]
  // expected-error @+1 {{H0202: backward passes in halves need all of them so, and one chunk for each stage}}
  pipe.schedule @schedule micro_batches 1 ["F0 I0 W0 O", "F0 B0 O"]
  nn.step @generate(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kind = #nn.program<generate>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    nn.return %x : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @generate(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kind = #nn.program<generate>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %y = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{H0905: is in no stage}}
    %z = nn.call @layer(%y) path "h.2" : (tensor<4xf32>) -> tensor<4xf32>
    nn.return %z : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @generate(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kind = #nn.program<generate>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %y = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{H0202: runs the instance "h.0" once more; a stage runs it once in each fragment}}
    %z = nn.call @layer(%y) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
    nn.return %z : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @generate(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kind = #nn.program<generate>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %y = nn.call @layer(%x) path "h.1" : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{H0202: stage 0 reads what stage 1 makes later}}
    %z = nn.call @layer(%y) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
    nn.return %z : tensor<4xf32>
  }
}

// -----

// Both layers read the parameter, and nobody makes its gradient.
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  // expected-error @+1 {{H0202: stages 0 and 1 read this parameter, but do not all make its gradient}}
  nn.state @w role parameter : tensor<4xf32> {trainable}
  nn.func @layer(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.schedule @schedule micro_batches 1 ["F0 B0 O", "F0 B0 O"]
  nn.step @generate(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kind = #nn.program<generate>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %w = nn.get @w : tensor<4xf32>
    %y = nn.call @layer(%x, %w) path "h.0" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %z = nn.call @layer(%y, %w) path "h.1" : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    nn.return %z : tensor<4xf32>
  }
}

// -----

// Two virtual stages of one rank add to one gradient, of one micro-batch: the
// second would begin anew.
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{mesh = {pipe = 2}}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 2>, #dist.axis<"data" = 1>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @w role parameter : tensor<4xf32> {trainable}
  nn.state @w.grad role gradient : tensor<4xf32> {parameter = "w"}
  nn.func @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  pipe.stage @stage0 index 0 calls ["h.0"]
  pipe.stage @stage1 index 1 calls ["h.1"]
  pipe.stage @stage2 index 2 calls ["h.2"]
  pipe.stage @stage3 index 3 calls ["h.3"]
  pipe.schedule @schedule micro_batches 1 ["F0 F0/1 B0/1 B0 O", "F0 F0/1 B0/1 B0 O"]
  nn.step @train(%ids: tensor<1x4xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %x = nn.micro_batch %ids[%i] : tensor<1x4xf32> -> tensor<4xf32>
      %f0 = nn.call @layer(%x) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
      %f1 = nn.call @layer(%f0) path "h.1" : (tensor<4xf32>) -> tensor<4xf32>
      %f2 = nn.call @layer(%f1) path "h.2" : (tensor<4xf32>) -> tensor<4xf32>
      %f3 = nn.call @layer(%f2) path "h.3" : (tensor<4xf32>) -> tensor<4xf32>
      %b3 = nn.call @layer(%f3) path "h.3" : (tensor<4xf32>) -> tensor<4xf32>
      %b2 = nn.call @layer(%b3) path "h.2" : (tensor<4xf32>) -> tensor<4xf32>
      %s2 = nn.add %b2, %b2 : tensor<4xf32>
      %b1 = nn.call @layer(%b2) path "h.1" : (tensor<4xf32>) -> tensor<4xf32>
      %b0 = nn.call @layer(%b1) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
      // expected-error @+1 {{H0202: the parameter "w" is used by two virtual stages of one rank: accumulate over several micro-batches, or take fewer virtual stages}}
      %s0 = nn.add %b0, %s2 : tensor<4xf32>
      nn.set @w.grad, %s0 : tensor<4xf32>
      nn.return
    }
    nn.return
  }
}
