// RUN: heddle-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{'dist.mesh' op expected #dist.axis, got "data"}}
dist.mesh @pod ["data"]

// -----

// expected-error @+1 {{'dist.mesh' op axis "data" has size 0; a size is at least 1}}
dist.mesh @pod [#dist.axis<"data" = 0>]

// -----

// expected-error @+1 {{'dist.mesh' op axis "data" is named twice}}
dist.mesh @pod [#dist.axis<"data" = 2>, #dist.axis<"data" = 4>]

// -----

// expected-error @+1 {{'dist.mesh' op is none: its axis expert is no factor of data}}
dist.mesh @pod [#dist.axis<"data" = 6>, #dist.axis<"expert" = 4, factor of "data">]

// -----

nn.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{axis "data" is used twice in one sharding}}
  %0 = dist.reshard %x from <[["data"]], unreduced ["data"]> to <[[]], unreduced []> for "x" : tensor<8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{expected a list of axes per dimension, got "data"}}
  %0 = dist.reshard %x from <["data"], unreduced []> to <[[]], unreduced []> for "x" : tensor<8xf32>
  nn.return
}

// -----

nn.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{expected the name of a mesh axis, got 3}}
  %0 = dist.reshard %x from <[[3]], unreduced []> to <[[]], unreduced []> for "x" : tensor<8xf32>
  nn.return
}

// -----

// expected-error @+1 {{strategy: there is no setting batchs; did you mean batch?}}
nn.func @f() attributes {nn.value = #dist.strategy<{batchs = 4}>} {
  nn.return
}

// -----

// expected-error @+1 {{expected '{'}}
nn.func @f() attributes {nn.value = #dist.strategy<{batch = 4 : i32}>} {
  nn.return
}

// -----

// expected-error @+1 {{expected valid keyword or string}}
nn.func @f() attributes {nn.value = #dist.strategy<{precision = 16}>} {
  nn.return
}

// -----

// expected-error @+2 {{unexpected decimal integer literal for a floating point value}}
// expected-note @+1 {{add a trailing dot to make the literal a float}}
nn.func @f() attributes {nn.value = #dist.strategy<{optimizer = {lr = 1}}>} {
  nn.return
}

// -----

// expected-error @+1 {{expected valid keyword}}
nn.func @f() attributes {nn.value = #dist.strategy<{optimizer = {decoupled = 1}}>} {
  nn.return
}

// -----

// expected-error @+1 {{expected valid keyword or string}}
nn.func @f() attributes {nn.value = #dist.strategy<{keep = ["a", 1]}>} {
  nn.return
}

// -----

// expected-error @+1 {{strategy: batch.micro 2 * batch.accumulate 3 * mesh.data 1 is not batch.global 8}}
nn.func @f() attributes {nn.value = #dist.strategy<{batch = {global = 8, micro = 2, accumulate = 3}}>} {
  nn.return
}

// -----

// expected-error @+1 {{strategy: serve.max_batch 3 is no multiple of mesh.data 2}}
nn.func @f() attributes {nn.value = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}, serve = {mode = "serve", max_batch = 3}}>} {
  nn.return
}

// -----

// expected-error @+1 {{strategy: quantize.activations is auto, which is settled before: write none or int8}}
nn.func @f() attributes {nn.value = #dist.strategy<{quantize = {activations = auto}}>} {
  nn.return
}

// -----

// expected-error @+1 {{strategy: threads is not a whole number from 1 to 1024}}
nn.func @f() attributes {nn.value = #dist.strategy<{threads = 0}>} {
  nn.return
}

// -----

// expected-error @+1 {{strategy: batch.accumulate is not a whole number from 1 to 65536}}
nn.func @f() attributes {nn.value = #dist.strategy<{batch = {accumulate = -4}}>} {
  nn.return
}

// -----

// expected-error @+1 {{strategy: place.swap_dir is not a directory, or several by role}}
nn.func @f() attributes {nn.value = #dist.strategy<{place = {swap_dir = "/a,weights=/b"}}>} {
  nn.return
}

// -----

// expected-error @+1 {{strategy: precision "fp8" is not one of fp32, bf16}}
nn.func @f() attributes {nn.value = #dist.strategy<{precision = "fp8"}>} {
  nn.return
}

// -----

// expected-error @+1 {{strategy: the mesh has more than 1048576 ranks}}
nn.func @f() attributes {nn.value = #dist.strategy<{mesh = {data = 4096, tensor = 4096}}>} {
  nn.return
}

// -----

// expected-error @+1 {{strategy: optimizer.lr is not a number from 0}}
nn.func @f() attributes {nn.value = #dist.strategy<{optimizer = {lr = 0x7FF0000000000000}}>} {
  nn.return
}

// -----

// expected-error @+1 {{strategy: scheduler.params is no JSON}}
nn.func @f() attributes {nn.value = #dist.strategy<{scheduler = {params = "{"}}>} {
  nn.return
}

// -----

// expected-error @+1 {{H0194: the parameters of schedule "WarmupLR" are not right}}
nn.func @f() attributes {nn.value = #dist.strategy<{scheduler = {type = "WarmupLR", params = "{\"warmup_num_steps\": \"five\"}"}}>} {
  nn.return
}

// -----

// expected-error @+1 {{H0194: the parameters of schedule "WarmupDecayLR" are not right}}
nn.func @f() attributes {nn.value = #dist.strategy<{scheduler = {type = "WarmupDecayLR"}}>} {
  nn.return
}

// -----

nn.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  // expected-error @+1 {{'dist.all_reduce' op names the axis "", which the mesh does not have; axes are pipe, data, seq, tensor}}
  %0 = dist.all_reduce %x axes [""] for "x" : tensor<8xf32> -> tensor<8xf32>
  nn.return %0 : tensor<8xf32>
}

// -----

nn.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dist.send' op names the axis "dato", which the mesh does not have; axes are pipe, data, seq, tensor}}
  dist.send %x to 1 on "dato" channel "c" : tensor<8xf32>
  nn.return
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<100xf32>
  nn.func @f() -> tensor<64xf32> {
    // expected-error @+1 {{'dist.fetch' op moves 'tensor<64xf32>' from element 40 of @w, which is 'tensor<100xf32>'}}
    %0 = dist.fetch @w[40] : tensor<64xf32>
    nn.return %0 : tensor<64xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<100xf32>
  nn.func @f(%x: tensor<64xbf16>) {
    // expected-error @+1 {{'dist.store' op moves 'tensor<64xbf16>' from element 0 of @w, which is 'tensor<100xf32>'}}
    dist.store @w[0], %x : tensor<64xbf16>
    nn.return
  }
}

// -----

nn.func @f() -> tensor<64xf32> {
  // expected-error @+1 {{'dist.fetch' op refers to unknown state @w}}
  %0 = dist.fetch @w[0] : tensor<64xf32>
  nn.return %0 : tensor<64xf32>
}

// -----

nn.func @f() -> tensor<8x8xf32> {
  // expected-error @+1 {{'dist.fetch' op moves a range of a flat tensor, got 'tensor<8x8xf32>'}}
  %0 = dist.fetch @w[0] : tensor<8x8xf32>
  nn.return %0 : tensor<8x8xf32>
}

// -----

nn.func @f(%x: tensor<8xf32>) {
  // expected-error @+1 {{'dist.store' op begins at element -1}}
  dist.store @w[-1], %x : tensor<8xf32>
  nn.return
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<64xf32>
  nn.func @f() -> tensor<64xf32> {
    // expected-error @+1 {{'dist.fetch' op is pending, but used by nn.map}}
    %0 = dist.fetch @w[0] {pending} : tensor<64xf32>
    %1 = nn.map relu(%0) : tensor<64xf32>
    nn.return %1 : tensor<64xf32>
  }
}

// -----

nn.func @f() {
  // expected-error @+1 {{'dist.flush' op attribute 'left' failed to satisfy constraint}}
  dist.flush -1
  nn.return
}

// -----

nn.func @f(%x: tensor<64xf32>) -> tensor<64xf32> {
  // expected-error @+1 {{'dist.move' op is pending, but used by nn.map}}
  %0 = dist.move %x to_host {pending} : tensor<64xf32>
  %1 = nn.map relu(%0) : tensor<64xf32>
  nn.return %1 : tensor<64xf32>
}

// -----

nn.func @f(%ids: tensor<4xi32>) -> tensor<5x8xf32> {
  // expected-error @+1 {{'dist.fetch_rows' op makes 'tensor<5x8xf32>' of the rows at 'tensor<4xi32>'}}
  %0 = dist.fetch_rows @w[0] of 3 at %ids : tensor<4xi32> -> tensor<5x8xf32>
  nn.return %0 : tensor<5x8xf32>
}

// -----

nn.func @f(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'dist.fetch_rows' op fetches of 4611686018427387904 rows from element 0 on}}
  %0 = dist.fetch_rows @w[0] of 4611686018427387904 at %ids : tensor<4xi32> -> tensor<4x8xf32>
  nn.return %0 : tensor<4x8xf32>
}

// -----

nn.func @f(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{'dist.fetch_rows' op fetches of 3 rows from element -8 on}}
  %0 = dist.fetch_rows @w[-8] of 3 at %ids : tensor<4xi32> -> tensor<4x8xf32>
  nn.return %0 : tensor<4x8xf32>
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<64xf32>
  nn.func @f(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
    // expected-error @+1 {{'dist.fetch_rows' op moves 'tensor<64xf32>' from element 1 of @w, which is 'tensor<64xf32>'}}
    %0 = dist.fetch_rows @w[1] of 8 at %ids : tensor<4xi32> -> tensor<4x8xf32>
    nn.return %0 : tensor<4x8xf32>
  }
}

// -----

nn.model @m family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<64xf32>
  nn.func @f(%ids: tensor<4xi32>) -> tensor<4x8xf32> {
    // expected-error @+1 {{'dist.fetch_rows' op is pending, but used by nn.map}}
    %0 = dist.fetch_rows @w[0] of 8 at %ids {pending} : tensor<4xi32> -> tensor<4x8xf32>
    %1 = nn.map relu(%0) : tensor<4x8xf32>
    nn.return %1 : tensor<4x8xf32>
  }
}
