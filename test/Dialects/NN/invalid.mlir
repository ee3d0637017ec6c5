// RUN: heddle-opt %s --split-input-file --verify-diagnostics

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.state' op has elements of type 'i4'; known are f64, f32, bf16, f16, i8, i32 and i64}}
  nn.state @s role parameter : tensor<4xi4>
}

// -----

// expected-error @+1 {{'nn.model' op has a strategy whose objective is mlm, but weights whose objective is causal; write the same in both}}
nn.model @m family "bert" phase "train" attributes {
    strategy = #dist.strategy<{loss = {objective = mlm}}>, config = "{}", weights = {}} {
}

// -----

// expected-error @+1 {{'nn.model' op has weights whose vocab_size is -1 : i64; it must be 1 : i64 or more}}
nn.model @m family "bert" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {vocab_size = -1 : i64}} {
}

// -----

// expected-error @+1 {{'nn.model' op has weights whose mask_token is 8 : i64; it must be a number from 0 : i64 to below vocab_size}}
nn.model @m family "bert" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {mask_token = 8 : i64, vocab_size = 8 : i64}} {
}

// -----

// expected-error @+1 {{'nn.model' op has weights whose extended table is {rows = 8 : i64, tensor = "wpe.weight"}; it must be written as {tensor = "wpe.weight", rows = 8192 : i64, first = 0 : i64, interpolates = false, source_rows = 1024 : i64}}}
nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}",
    weights = {extended = {tensor = "wpe.weight", rows = 8 : i64}}} {
}

// -----

// expected-error @+1 {{'nn.model' op has weights whose special_tokens are "a"; they must be written as array<i64: 0, 1>}}
nn.model @m family "bert" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {special_tokens = "a"}} {
}

// -----

nn.model @m family "bert" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {segments = 3 : i64}} {
  nn.func @f(%table: tensor<2x4xf32>, %segments: tensor<1x8xi32>) -> tensor<1x8x4xf32>
      attributes {inputs = [#nn.port<positions>, #nn.port<segments>]} {
    // expected-error @+1 {{'nn.embedding' op has a table of 2 rows, but there may be 3 segments, as the weights of the model say}}
    %0 = nn.embedding %table[%segments] : (tensor<2x4xf32>, tensor<1x8xi32>) -> tensor<1x8x4xf32>
    nn.return %0 : tensor<1x8x4xf32>
  }
}

// -----

nn.model @m family "bert" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f(%table: tensor<2x4xf32>, %ids: tensor<1x8xi32>) -> tensor<1x8x4xf32> {
    // expected-error @+1 {{'nn.embedding' op has the padding 2 in a table of 2 rows}}
    %0 = nn.embedding %table[%ids] {padding = 2 : i64} : (tensor<2x4xf32>, tensor<1x8xi32>) -> tensor<1x8x4xf32>
    nn.return %0 : tensor<1x8x4xf32>
  }
}

// -----

nn.model @m family "bert" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.state' op initialises row 3 of 'tensor<3x4xf32>' with zeros}}
  nn.state @a role parameter : tensor<3x4xf32> {init = #nn.init<normal, 0.0 : f64, 1.0 : f64, zero_row = 3>}
}

// -----

// expected-error @+1 {{'nn.model' op has weights whose objective is "mlm"; it must be #nn.objective<causal> or #nn.objective<mlm>}}
nn.model @m family "bert" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {objective = "mlm"}} {
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.func' op has a value of type 'tensor<8xi1>'; tensors have static shapes, and elements of f64, f32, bf16, f16, i8, i32 or i64}}
  nn.func @f(%x: tensor<8xi1>) -> tensor<8xi1> {
    nn.return %x : tensor<8xi1>
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+2 {{failed to parse NN_StateRoleAttr}}
  // expected-error @+1 {{expected ::heddle::nn::StateRole to be one of: parameter, derived, gradient, optimizer, accumulator, scalar, saved}}
  nn.state @s role momentum : tensor<4xf32>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.state' op needs a static tensor type, got 'tensor<?xf32>'}}
  nn.state @s role parameter : tensor<?xf32>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.state' op needs a static tensor type, got 'f32'}}
  nn.state @s role parameter : f32
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.state' op names a parameter, which states of its role do not have}}
  nn.state @s role parameter : tensor<4xf32> {parameter = "w"}
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.state' op does not name the parameter it belongs to}}
  nn.state @s role gradient : tensor<4xf32>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.state' op is kept for all parameters, but is no number: it has type 'tensor<4xf32>'}}
  nn.state @s role optimizer : tensor<4xf32>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+2 {{failed to parse NN_InitAttr}}
  // expected-error @+1 {{expected ::heddle::nn::InitKind to be one of: zeros, constant, normal, power}}
  nn.state @s role parameter : tensor<4xf32> {init = #nn.init<uniform, 0.0 : f64, 1.0 : f64>}
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @s role parameter : tensor<4xf32>
  // expected-error @+1 {{'nn.bucket' op needs a tensor type of rank 1, of f64, f32, bf16, f16, i8, i32 or i64, got 'tensor<8x8xf32>'}}
  nn.bucket @b [@s] : tensor<8x8xf32>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.bucket' op has no members}}
  nn.bucket @b [] : tensor<64xf32>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.bucket' op member @t is no state}}
  nn.bucket @b [@t] : tensor<64xf32>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @s role parameter : tensor<4xf32>
  // expected-error @+1 {{'nn.bucket' op member @s has element type 'f32', the bucket 'bf16'}}
  nn.bucket @b [@s] : tensor<64xbf16>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @s role parameter : tensor<4xf32>
  // expected-error @+1 {{'nn.bucket' op has 4 elements, its members with padding 64}}
  nn.bucket @b [@s] : tensor<4xf32>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @s role parameter : tensor<4xf32>
  nn.func @f() {
    // expected-error @+1 {{'nn.get' op refers to unknown state @t}}
    %0 = nn.get @t : tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @s role parameter : tensor<4xf32>
  nn.func @f() {
    // expected-error @+1 {{'nn.get' op has type 'tensor<5xf32>' but state @s has type 'tensor<4xf32>'}}
    %0 = nn.get @s : tensor<5xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @s role parameter : tensor<4xf32>
  nn.func @f(%x: tensor<5xf32>) {
    // expected-error @+1 {{'nn.set' op has type 'tensor<5xf32>' but state @s has type 'tensor<4xf32>'}}
    nn.set @s, %x : tensor<5xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.func' op has 1 arguments but 2 ports for them}}
  nn.func @f(%x: index) attributes {inputs = [#nn.port<value, "a">, #nn.port<value, "b">]} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.func' op has 0 results but 1 ports for them}}
  nn.func @f() attributes {outputs = [#nn.port<value, "a">]} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.func' op has ties for 1 results of 0}}
  nn.func @f() attributes {ties = array<i64: 0>} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f(%x: index) {
    // expected-error @+1 {{'nn.return' op returns 'index' from a function of }}
    nn.return %x : index
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.func' op must end in nn.return}}
  nn.func @f() {
    plan.end
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.func' op must have a body of one block}}
  nn.func @f(index)
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.step' op must have a body of one block}}
  nn.step @s() attributes {kind = #nn.program<eval>, inputs = [], outputs = []}
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{attribute 'kind' failed to satisfy constraint: the kind of a step program}}
  nn.step @s() attributes {kind = "serve", inputs = [], outputs = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.step' op has 0 arguments but 1 ports for them}}
  nn.step @s() attributes {kind = #nn.program<eval>, inputs = [#nn.port<value, "a">], outputs = []} {
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f() {
    // expected-error @+1 {{'nn.call' op calls unknown function @g}}
    nn.call @g() path "g" : () -> ()
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @g(%x: index) {
    nn.return
  }
  nn.func @f() {
    // expected-error @+1 {{'nn.call' op passes  to @g, which takes 'index'}}
    nn.call @g() path "g" : () -> ()
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.condition @c <"h.0", 0.5>
  nn.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.step @train(%x: tensor<4xf32>) -> tensor<4xf32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %0 = nn.call @g(%x) path "h.0" when @c passes [0] : (tensor<4xf32>) -> tensor<4xf32>
    // expected-error @+1 {{'nn.call' op has another condition than an earlier call of "h.0"}}
    %1 = nn.call @g(%0) path "h.0" : (tensor<4xf32>) -> tensor<4xf32>
    nn.return %1 : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @g(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.func @f(%x: tensor<4xf32>, %n: index) {
    // expected-error @+1 {{'nn.call' op has the unknown condition @c}}
    %0 = nn.call @g(%x, %n) path "h.0" when @c passes [0] : (tensor<4xf32>, index) -> tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.condition @c <"h.0", 0.5>
  nn.func @g(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.func @f(%x: tensor<4xf32>, %n: index) {
    // expected-error @+1 {{'nn.call' op says for 2 of its 1 results what they are when it is skipped}}
    %0 = nn.call @g(%x, %n) path "h.0" when @c passes [0, -1] : (tensor<4xf32>, index) -> tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.condition @c <"h.0", 0.5>
  nn.func @g(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.func @f(%x: tensor<4xf32>, %n: index) {
    // expected-error @+1 {{'nn.call' op passes operand 2, and it has 2}}
    %0 = nn.call @g(%x, %n) path "h.0" when @c passes [2] : (tensor<4xf32>, index) -> tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.condition @c <"h.0", 0.5>
  nn.func @g(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.func @f(%x: tensor<4xf32>, %n: index) {
    // expected-error @+1 {{'nn.call' op passes operand 1 of type 'index' as a result of type 'tensor<4xf32>'}}
    %0 = nn.call @g(%x, %n) path "h.0" when @c passes [1] : (tensor<4xf32>, index) -> tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{drops a layer with probability 1.500000e+00 : f64}}
  nn.condition @c <"h.0", 1.5>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{drops a layer with probability 1.000000e+00 : f64}}
  nn.condition @c <"h.0", 1.0>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{has theta 0.000000e+00 : f64, which must be in (0, 1]}}
  nn.condition @c <"h.0", 0.5 of 0.0, 0.1>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{has gamma -1.000000e-01 : f64, which must be at least 0}}
  nn.condition @c <"h.0", 0.5 of 0.5, -0.1>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @g(%x: index) {
    nn.return
  }
  nn.func @f(%x: index) {
    // expected-error @+1 {{'nn.call' op expects 'tensor<4xf32>' from @g, which gives }}
    %0 = nn.call @g(%x) path "g" : (index) -> tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f() {
    nn.call @g() path "g" : () -> ()
    nn.return
  }
  nn.func @g() {
    // expected-error @+1 {{'nn.call' op is in a circle of calls: @f calls itself}}
    nn.call @f() path "f" : () -> ()
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f() {
    // expected-error @+1 {{'nn.micro_batches' op runs 0 times; at least 1}}
    nn.micro_batches 0 {
    ^bb0(%i: index):
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f() {
    // expected-error @+1 {{'nn.micro_batches' op needs one argument of type index}}
    nn.micro_batches 2 {
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f() {
    // expected-error @+1 {{'nn.micro_batches' op must end in nn.return without values}}
    nn.micro_batches 2 {
    ^bb0(%i: index):
      nn.return %i : index
    }
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f(%x: tensor<2x4xf32>, %i: index) {
    // expected-error @+1 {{'nn.micro_batch' op gives 'tensor<3xf32>', but a slice of 'tensor<2x4xf32>' along its first dimension has its other dimensions}}
    %0 = nn.micro_batch %x[%i] : tensor<2x4xf32> -> tensor<3xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f(%x: tensor<2x4xf32>, %i: index) {
    // expected-error @+1 {{'nn.micro_batch' op is given an index that is no micro-batch's number}}
    %0 = nn.micro_batch %x[%i] : tensor<2x4xf32> -> tensor<4xf32>
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f(%x: tensor<2x4xf32>) {
    nn.micro_batches 3 {
    ^bb0(%i: index):
      // expected-error @+1 {{'nn.micro_batch' op takes one of 2 micro-batches in a loop over 3}}
      %0 = nn.micro_batch %x[%i] : tensor<2x4xf32> -> tensor<4xf32>
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.func @f(%x: tensor<3x4xf32>) {
    nn.micro_batches 2 {
    ^bb0(%i: index):
      %0 = nn.micro_batch %x[%i] : tensor<3x4xf32> -> tensor<4xf32>
      nn.return
    }
    nn.micro_batches 1 {
    ^bb0(%i: index):
      %c1 = arith.constant 1 : index
      %number = arith.addi %i, %c1 : index
      // expected-error @+1 {{'nn.micro_batch' op takes micro-batches from number 1 on, and the loops before have 2}}
      %0 = nn.micro_batch %x[%number] : tensor<3x4xf32> -> tensor<4xf32>
      nn.return
    }
    nn.return
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.state' op belongs to "w", which is no parameter}}
  nn.state @s role optimizer : tensor<4xf32> {parameter = "w"}
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<8xf32>
  // expected-error @+1 {{'nn.state' op has type 'tensor<4xf32>', its parameter 'tensor<8xf32>'}}
  nn.state @s role optimizer : tensor<4xf32> {parameter = "w"}
}

// -----

nn.model @model family "gpt2" phase "train" attributes {strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<4xf32>
  // expected-error @+1 {{'nn.state' op is held as "replica", which only a state of the optimizer for a parameter may be, as "parameter", "whole" or "local"}}
  nn.state @w.m role optimizer : tensor<4xf32> {held = #nn.held<replica>, parameter = "w"}
}

// -----

nn.model @model family "gpt2" phase "train" attributes {strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.state' op is held as "whole", which only a state of the optimizer for a parameter may be}}
  nn.state @w role parameter : tensor<4xf32> {held = #nn.held<whole>}
}

// -----

nn.model @m family "gpt2" phase "pipe" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{'nn.state' op holds no slots: it is of rank 0}}
  nn.state @s role saved : tensor<f32>
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<4xf32>
  // expected-error @+1 {{'nn.bucket' op has the member @w twice}}
  nn.bucket @b [@w, @w] : tensor<128xf32>
}

// -----

// Axes are those of the mesh, wherever they stand.
nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  // expected-error @+1 {{'nn.state' op names the axis "date", which the mesh does not have}}
  nn.state @s role accumulator : tensor<f32> {storage = #dist.sharding<[], unreduced ["date"]>}
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.func @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    // expected-error @+1 {{'dist.reshard' op names the axis "tensor", which the mesh does not have}}
    %0 = dist.reshard %x from #dist.sharding<[[], []], unreduced []> to #dist.sharding<[["tensor"], []], unreduced []> for "x" : tensor<4x4xf32>
    nn.return %0 : tensor<4x4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{'dist.all_reduce' op names the axis "pod", which the mesh does not have}}
    %0 = dist.all_reduce %x axes ["pod"] for "x" : tensor<4xf32> -> tensor<4xf32>
    nn.return %0 : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  nn.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{'nn.map' op has 2 shardings for 1 values}}
    %0 = nn.map relu(%x) {shardings = [#dist.sharding<[[]], unreduced []>, #dist.sharding<[[]], unreduced []>]} : tensor<4xf32>
    nn.return %0 : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "shard" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"data" = 2>]
  // expected-error @+1 {{'nn.func' op has #dist.sharding<[["data"]], unreduced []> for a value of rank 2}}
  nn.func @f(%x: tensor<4x4xf32>) attributes {arg_shardings = [#dist.sharding<[["data"]], unreduced []>]} {
    nn.return
  }
}

// -----

// expected-error @+1 {{'nn.model' op has a config that is no JSON}}
nn.model @m family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{}>, config = "x", weights = {}} {
}

// -----

// expected-error @+1 {{'nn.model' op has a config that is no JSON object}}
nn.model @m family "gpt2" phase "import" attributes {
    strategy = #dist.strategy<{}>, config = "[]", weights = {}} {
}

// -----

nn.func @f(%x: tensor<4xf32>, %y: tensor<2x4xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{unknown function "swish"; known are gelu, gelu_tanh, relu, relu_squared, quick_gelu, silu, and their derivatives with _grad}}
  %0 = nn.map swish(%x) : tensor<4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<4xf32>, %y: tensor<2x4xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'nn.map' op takes 'tensor<2x4xf32>'; possible are tensors of the shape of 'tensor<4xf32>' and scalars of rank 0}}
  %0 = nn.map relu_grad(%x, %y) : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<4xf32>, %y: tensor<2x4xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'nn.map' op takes no tensor of the shape of its results}}
  %0 = nn.map relu(%s) : (tensor<f32>) -> tensor<4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<4xf32>, %y: tensor<2x4xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'nn.map' op has results of several shapes: 'tensor<4xf32>' and 'tensor<2x4xf32>'}}
  %0:2 = nn.map (%a = %x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<2x4xf32>) {
    nn.return %a, %a : f64, f64
  }
  nn.return
}

// -----

nn.func @f(%x: tensor<4xf32>, %y: tensor<2x4xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'nn.map' op has a body of 'f64' for 2 operands; it needs one f64 for each}}
  %0 = nn.map relu(%x, %x) : tensor<4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<4xf32>, %y: tensor<2x4xf32>, %s: tensor<f32>) {
  %0 = nn.map (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{'nn.return' op returns 'f64', 'f64' from a body for 1 results; it needs one f64 for each}}
    nn.return %a, %a : f64, f64
  }
  nn.return
}

// -----

nn.func @f(%x: tensor<4xf32>, %y: tensor<2x4xf32>, %s: tensor<f32>) {
  %0 = nn.map (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{'math.ceil' op is no scalar operation of nn.map}}
    %1 = math.ceil %a : f64
    nn.return %1 : f64
  }
  nn.return
}

// -----

nn.func @f(%x: tensor<4xf32>, %y: tensor<2x4xf32>, %s: tensor<f32>) {
  %0 = nn.map (%a = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    // expected-error @+1 {{'arith.constant' op gives 'f32' in a body of f64}}
    %1 = arith.constant 1.0 : f32
    nn.return %a : f64
  }
  nn.return
}

// -----

nn.func @f(%x: tensor<4xf32>, %y: tensor<2x4xf32>, %s: tensor<f32>) {
  // expected-error @+1 {{'nn.map' op has another body than the function relu}}
  %0 = "nn.map"(%x) <{function = #nn.function<relu>}> ({
  ^bb0(%a: f64):
    %zero = arith.constant 1.0 : f64
    %larger = arith.maximumf %a, %zero : f64
    nn.return %larger : f64
  }) : (tensor<4xf32>) -> tensor<4xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<4xf32>, %y: tensor<2x4xf32>, %s: tensor<f32>) {
  %0 = arith.constant 1.0 : f64
  // expected-error @+1 {{'nn.logistic' op expects parent op 'nn.map'}}
  %1 = nn.logistic %0 : f64
  nn.return
}

// -----

nn.model @m family "x" phase "import" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0356: its source has the shape [4, 3], its type is 'tensor<3x4xf32>'}}
  nn.state @a role parameter : tensor<3x4xf32> {source = #nn.source<transpose("a" : tensor<3x4xf32>)>}
}

// -----

nn.model @m family "x" phase "import" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{H0356: the source does not fit: [3, 4] and [3, 5] do not fit together along dimension 0}}
  nn.state @a role parameter : tensor<6x4xf32> {source = #nn.source<concat(0, "a" : tensor<3x4xf32>, "b" : tensor<3x5xf32>)>}
}

// -----

nn.model @m family "x" phase "import" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-error @+1 {{unknown expression "turn"; known are transpose, permute, reshape, slice, concat, stack}}
  nn.state @a role parameter : tensor<4x3xf32> {source = #nn.source<turn("a" : tensor<3x4xf32>)>}
}

// -----

nn.func @f(%q: tensor<1x4x16xf32>, %p: tensor<1x4xi32>) {
  // expected-error @+1 {{has a ramp from 2.000000e+00 : f64 to 1.000000e+00 : f64}}
  %r = nn.rotary %q at %p {heads = 2 : i64, dims = 8 : i64, theta = 1.0e4 : f64, scaling = #nn.rotary_scaling<pairs, factor = 8.0 : f64, low = 2.0 : f64, high = 1.0 : f64, magnitude = 1.0 : f64>} : (tensor<1x4x16xf32>, tensor<1x4xi32>) -> tensor<1x4x16xf32>
  nn.return
}

// -----

nn.func @packed_without_scales(%x: tensor<1x8xf32>, %w: tensor<1x1x32xi32>) {
  // expected-error@+1 {{has a quantized weight without scales}}
  %0 = nn.packed_linear %x, %w bits 4 : (tensor<1x8xf32>, tensor<1x1x32xi32>) -> tensor<1x32xf32>
  nn.return
}

// -----

nn.func @packed_input_block(%x: tensor<1x16xf32>, %w: tensor<1x2x32xi32>, %s: tensor<1x1x32xf32>) {
  // expected-error@+1 {{rounds inputs in blocks of 4; a multiple of 8 up to 32768 is needed}}
  %0 = nn.packed_linear %x, %w scales %s bits 4 input_block 4 : (tensor<1x16xf32>, tensor<1x2x32xi32>, tensor<1x1x32xf32>) -> tensor<1x32xf32>
  nn.return
}

// -----

nn.func @packed_input_block_of_floats(%x: tensor<1x8xf32>, %w: tensor<1x8x32x1xf32>) {
  // expected-error@+1 {{has bits, scales, zeros or an input_block, but its weight is not quantized}}
  %0 = nn.packed_linear %x, %w input_block 8 : (tensor<1x8xf32>, tensor<1x8x32x1xf32>) -> tensor<1x32xf32>
  nn.return
}

// -----

nn.func @packed_panels(%x: tensor<1x8xf32>, %w: tensor<1x8x32x1xf32>) {
  // expected-error@+1 {{of 8 inputs and 40 outputs needs a weight of 2x8x32 words}}
  %0 = nn.packed_linear %x, %w : (tensor<1x8xf32>, tensor<1x8x32x1xf32>) -> tensor<1x40xf32>
  nn.return
}

// -----

nn.func @packed_fragments(%x: tensor<1x8xf32>, %w: tensor<1x8x32x1xf32>) {
  // expected-error@+1 {{of 8 inputs and 32 outputs needs a weight of 2x1x128 words}}
  %0 = nn.packed_linear %x, %w layout fragments : (tensor<1x8xf32>, tensor<1x8x32x1xf32>) -> tensor<1x32xf32>
  nn.return
}

// -----

nn.func @packed_groups(%x: tensor<1x24xf32>, %w: tensor<1x3x32xi32>, %s: tensor<1x2x32xf32>) {
  // expected-error@+1 {{cuts 24 inputs into 2 groups, which have no whole words}}
  %0 = nn.packed_linear %x, %w scales %s bits 4 : (tensor<1x24xf32>, tensor<1x3x32xi32>, tensor<1x2x32xf32>) -> tensor<1x32xf32>
  nn.return
}

// -----

// expected-error@+1 {{packs values of 5 bits; 32, 16, 8 and 4 are known}}
nn.state @bits role derived : tensor<1x8x32x1xf32> {packed = #nn.packed<words of "w" as tensor<8x8xf32>, bits = 5, group = 0, even = true, transposed = false>}

// -----

// expected-error@+1 {{packs "w" of type 'tensor<8x8xf32>' in floats of 16 bits}}
nn.state @words role derived : tensor<1x4x32x2xbf16> {packed = #nn.packed<words of "w" as tensor<8x8xf32>, bits = 16, group = 0, even = true, transposed = false>}

// -----

// expected-error@+1 {{has type 'tensor<1x8x32xi32>', and what it is made of gives 'tensor<1x1x32xi32>'}}
nn.state @words role derived : tensor<1x8x32xi32> {packed = #nn.packed<words of "w" as tensor<8x8xf32>, bits = 4, group = 0, even = true, transposed = false>}

// -----

// expected-error@+1 {{does not name the parameter it belongs to}}
nn.state @what role derived : tensor<1x8x32x1xf32>

// -----

// expected-error@+1 {{is packed, but not derived}}
nn.state @words role parameter : tensor<1x8x32x1xf32> {packed = #nn.packed<words of "w" as tensor<8x8xf32>, bits = 32, group = 0, even = true, transposed = false>}

// -----

// expected-error@+1 {{names a parameter, which states of its role do not have}}
nn.state @words role derived : tensor<1x8x32x1xf32> {packed = #nn.packed<words of "w" as tensor<8x8xf32>, bits = 32, group = 0, even = true, transposed = false>, parameter = "w"}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.condition @c <"h.0", 0.5>
  nn.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.step @train(%x: tensor<4xf32>) -> tensor<4xf32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    // expected-error @+1 {{'nn.call' op has the condition of another layer, h.0}}
    %0 = nn.call @g(%x) path "h.1" when @c passes [0] : (tensor<4xf32>) -> tensor<4xf32>
    nn.return %0 : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.condition @c <"h.0", 0.5>
  nn.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.step @train(%x: tensor<4xf32>) -> tensor<4xf32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    // expected-error @+1 {{'nn.add' op has the unknown condition @d}}
    %0 = nn.add %x, %x {nn.when = @d} : tensor<4xf32>
    nn.return %x : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.condition @c <"h.0", 0.5>
  nn.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.step @train(%x: tensor<4xf32>) -> tensor<4xf32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    // expected-error @+1 {{'nn.add' op needs the name of a condition as "nn.when"}}
    %0 = nn.add %x, %x {nn.when = 1 : i64} : tensor<4xf32>
    nn.return %x : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.condition @c <"h.0", 0.5>
  nn.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.step @train(%x: tensor<4xf32>) -> tensor<4xf32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    // expected-note @+1 {{the value is computed here}}
    %0 = nn.add %x, %x {nn.when = @c} : tensor<4xf32>
    // expected-error @+1 {{'nn.add' op has not the condition @c of a value that it uses}}
    %1 = nn.add %0, %x : tensor<4xf32>
    nn.return %1 : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.condition @c <"h.0", 0.5>
  nn.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.step @train(%x: tensor<4xf32>) -> tensor<4xf32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    // expected-note @+1 {{the value is computed here}}
    %0 = nn.add %x, %x {nn.when = @c} : tensor<4xf32>
    // The skipped call passes the value on.
    // expected-error @+1 {{'nn.call' op has not the condition @c of a value that it uses}}
    %1 = nn.call @g(%0) path "h.0" when @c passes [0] : (tensor<4xf32>) -> tensor<4xf32>
    nn.return %1 : tensor<4xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "train" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.condition @c <"h.0", 0.5>
  nn.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    nn.return %x : tensor<4xf32>
  }
  nn.step @train(%x: tensor<4xf32>) -> tensor<4xf32> attributes {
      kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    // expected-error @+1 {{'nn.return' op cannot have "nn.when"}}
    nn.return {nn.when = @c} %x : tensor<4xf32>
  }
}

// -----

// The parts of a packed weight are made of the same tensors.
nn.model @m family "gpt2" phase "fuse" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  // expected-note @+1 {{the other state is here}}
  nn.state @w.words role derived : tensor<1x1x32xi32> {init = #nn.init<normal, 0.0, 0.1>, packed = #nn.packed<words of "w" as tensor<8x32xf32>, bits = 4, group = 0, even = true, transposed = false>, source = #nn.source<"a" : tensor<8x32xf32>>}
  // expected-error @+1 {{'nn.state' op has another source than @w.words, which is packed from the same weight "w"}}
  nn.state @w.scales role derived : tensor<1x1x32xf16> {init = #nn.init<normal, 0.0, 0.1>, packed = #nn.packed<scales of "w" as tensor<8x32xf32>, bits = 4, group = 0, even = true, transposed = false>, source = #nn.source<"b" : tensor<8x32xf32>>}
}
