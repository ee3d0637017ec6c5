// RUN: heddle-opt %s --split-input-file --spmd-tile-products --verify-roundtrip | FileCheck %s
// RUN: heddle-opt %s --split-input-file --spmd-tile-products --spmd-overlap --spmd-fetch-parameters --spmd-condition-transfers --spmd-verify -o /dev/null

// A layer of two products. Its first weight is stored [in, out]: its rows are
// features of the input, and a tile's sums begin with those of the one before,
// so that they have the bits of the whole product's. The second one is
// stored [out, in]: theirs stand side by side. 40 rows of 24 elements begin at
// multiples of 64 elements every 8 rows: tiles of 24 and of 16 rows.

// CHECK-LABEL: nn.model @fetched
// CHECK: nn.func @block.0(%{{.*}}: tensor<3x5x40xf32>) -> tensor<3x5x40xf32>
// CHECK: nn.func @block.tile(%[[X:.*]]: tensor<3x5x40xf32>, %[[W:.*]]: tensor<24x24xf32>, %[[I:.*]]: index) -> tensor<3x5x24xf32>
// CHECK-NEXT: %[[S:.*]] = nn.slice %[[X]] dim 2 first %[[I]] : (tensor<3x5x40xf32>, index) -> tensor<3x5x24xf32>
// CHECK-NEXT: nn.linear %[[S]], %[[W]]
// CHECK: nn.func @{{.*}}(%{{.*}}: tensor<3x5x40xf32>, %{{.*}}: tensor<16x24xf32>, %{{.*}}: index, %[[SUM:.*]]: tensor<3x5x24xf32>)
// CHECK: nn.linear %{{.*}}, %{{.*}} init %[[SUM]] : (tensor<3x5x16xf32>, tensor<16x24xf32>, tensor<3x5x24xf32>) -> tensor<3x5x24xf32>

// CHECK: nn.step @eval
// CHECK: %[[B:.*]] = nn.get @h.0.b
// A tile is fetched while the call before runs.
// CHECK: %[[F0:.*]] = dist.fetch @parameters[0] {pending} : tensor<576xf32>
// CHECK: %[[P0:.*]] = nn.call @block.0(%{{.*}}) path "h.0"
// CHECK: %[[F1:.*]] = dist.fetch @parameters[0] {pending} : tensor<960xf32>
// CHECK: %[[T0:.*]] = nn.call @block.tile(%[[P0]], %{{.*}}, %c0) path "h.0.1"
// CHECK: dist.wait %[[F1]]
// CHECK-NEXT: %[[U1:.*]]:2 = nn.unpack %{{.*}} : (tensor<960xf32>) -> (tensor<576xf32>, tensor<16x24xf32>)
// CHECK: %[[T1:.*]] = nn.call @{{.*}}(%[[P0]], %[[U1]]#1, %c24, %[[T0]]) path "h.0.2"
// The bias is added behind all tiles.
// CHECK: %[[A:.*]] = nn.add_bias %[[T1]], %[[B]]
// CHECK: %[[P2:.*]] = nn.call @block.2(%[[A]]) path "h.0.3"
// CHECK: %[[T2:.*]] = nn.call @{{.*}}(%[[P2]], %{{.*}}) path "h.0.4" : {{.*}} -> tensor<3x5x24xf32>
// CHECK: %[[T3:.*]] = nn.call @{{.*}}(%[[P2]], %{{.*}}) path "h.0.5" : {{.*}} -> tensor<3x5x16xf32>
// CHECK: nn.concat %[[T2]], %[[T3]] dim 2
// CHECK-NOT: nn.get @h.0.w

nn.model @fetched family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{tile = ["h.*.w*=2"]}>, config = "{}", weights = {}} {
  nn.state @h.0.w role parameter : tensor<40x24xf32> {memory = #nn<memory file>}
  nn.state @h.0.w2 role parameter : tensor<40x24xf32> {memory = #nn<memory file>}
  nn.state @h.0.b role parameter : tensor<24xf32>
  nn.bucket @parameters [@h.0.w, @h.0.w2] : tensor<1920xf32>
  nn.func @block(%x: tensor<3x5x40xf32>, %w: tensor<40x24xf32>, %w2: tensor<40x24xf32>, %b: tensor<24xf32>) -> tensor<3x5x40xf32> {
    %0 = nn.map relu(%x) : tensor<3x5x40xf32>
    %1 = nn.linear %0, %w bias %b : (tensor<3x5x40xf32>, tensor<40x24xf32>, tensor<24xf32>) -> tensor<3x5x24xf32>
    %2 = nn.map relu(%1) : tensor<3x5x24xf32>
    %3 = nn.linear %2, %w2 {transposed} : (tensor<3x5x24xf32>, tensor<40x24xf32>) -> tensor<3x5x40xf32>
    nn.return %3 : tensor<3x5x40xf32>
  }
  nn.step @eval(%x: tensor<3x5x40xf32>) -> tensor<3x5x40xf32> attributes {kind = #nn.program<eval>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %b = nn.get @h.0.b : tensor<24xf32>
    %w = nn.get @h.0.w : tensor<40x24xf32>
    %w2 = nn.get @h.0.w2 : tensor<40x24xf32>
    %y = nn.call @block(%x, %w, %w2, %b) path "h.0" : (tensor<3x5x40xf32>, tensor<40x24xf32>, tensor<40x24xf32>, tensor<24xf32>) -> tensor<3x5x40xf32>
    nn.return %y : tensor<3x5x40xf32>
  }
}

// -----

// Ranks gather the same rows of every rank's part, and scatter the gradient of
// those. A part stays as it is.

// CHECK-LABEL: nn.model @gathered
// CHECK: nn.step @train
// CHECK: %[[PART:.*]] = nn.get @bucket : tensor<512xf32>
// CHECK-NEXT: %[[ROWS:.*]] = nn.unpack %[[PART]] : (tensor<512xf32>) -> tensor<16x32xf32>
// CHECK: %[[MINE:.*]] = nn.slice %[[ROWS]] dim 0 first %{{.*}} : (tensor<16x32xf32>, index) -> tensor<8x32xf32>
// CHECK-NEXT: dist.all_gather %[[MINE]] axes ["data"] dim 0 for "h.0.w" {pending} : tensor<8x32xf32> -> tensor<16x32xf32>
// CHECK: %[[G0:.*]] = nn.call @back.tile({{.*}}) path "h.0" : {{.*}} -> tensor<16x32xf32>
// CHECK-NEXT: %[[R0:.*]] = dist.reduce_scatter %[[G0]] axes ["data"] dim 0 for "h.0.w" {pending} : tensor<16x32xf32> -> tensor<8x32xf32>
// CHECK: %[[G1:.*]] = nn.call @back.tile({{.*}}) path "h.0.1"
// CHECK-NEXT: %[[D0:.*]] = dist.wait %[[R0]]
// CHECK-NEXT: %[[R1:.*]] = dist.reduce_scatter %[[G1]]
// CHECK: %[[D1:.*]] = dist.wait %[[R1]]
// CHECK-NEXT: %[[BOTH:.*]] = nn.concat %[[D0]], %[[D1]] dim 0
// CHECK-NEXT: %[[FLAT:.*]] = nn.pack %[[BOTH]] : (tensor<16x32xf32>) -> tensor<512xf32>
// CHECK: nn.set @gradients, %[[FLAT]]

nn.model @gathered family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}, tile = ["h.*.w=2"]}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @h.0.w role parameter : tensor<32x32xf32> {trainable}
  nn.state @h.0.w.grad role gradient : tensor<32x32xf32> {parameter = "h.0.w"}
  nn.bucket @bucket [@h.0.w] : tensor<512xf32> {storage = #dist.sharding<[["data"]], unreduced []>, elements = 1024 : i64}
  nn.bucket @gradients [@h.0.w.grad] : tensor<512xf32> {storage = #dist.sharding<[["data"]], unreduced []>, elements = 1024 : i64}
  nn.func @block(%x: tensor<3x5x32xf32>, %w: tensor<32x32xf32>) -> tensor<3x5x32xf32> {
    %0 = nn.linear %x, %w : (tensor<3x5x32xf32>, tensor<32x32xf32>) -> tensor<3x5x32xf32>
    nn.return %0 : tensor<3x5x32xf32>
  }
  nn.func @back(%x: tensor<3x5x32xf32>, %d: tensor<3x5x32xf32>) -> tensor<32x32xf32> {
    %0 = nn.linear_grad_weight %x, %d : (tensor<3x5x32xf32>, tensor<3x5x32xf32>) -> tensor<32x32xf32>
    nn.return %0 : tensor<32x32xf32>
  }
  nn.step @train(%x: tensor<3x5x32xf32>) attributes {kind = #nn.program<train>, inputs = [#nn.port<value, "x">], outputs = []} {
    %p = nn.get @bucket : tensor<512xf32>
    %f = dist.all_gather %p axes ["data"] dim 0 for "h.0.w" : tensor<512xf32> -> tensor<1024xf32>
    %w = nn.unpack %f : (tensor<1024xf32>) -> tensor<32x32xf32>
    %y = nn.call @block(%x, %w) path "h.0" : (tensor<3x5x32xf32>, tensor<32x32xf32>) -> tensor<3x5x32xf32>
    %g = nn.call @back(%x, %y) path "h.0" : (tensor<3x5x32xf32>, tensor<3x5x32xf32>) -> tensor<32x32xf32>
    %q = nn.pack %g : (tensor<32x32xf32>) -> tensor<1024xf32>
    %s = dist.reduce_scatter %q axes ["data"] dim 0 for "h.0.w" : tensor<1024xf32> -> tensor<512xf32>
    nn.set @gradients, %s : tensor<512xf32>
    nn.return
  }
}

// -----

// An embedding adds up the rows that each tile has. A GPU fetches no rows of its
// table. 50 rows of 64 elements: tiles of 25 rows.

// CHECK-LABEL: nn.model @embedded
// CHECK: nn.func @embed.tile(%[[IDS:.*]]: tensor<3x5xi32>, %[[T:.*]]: tensor<25x64xbf16>, %[[F:.*]]: index) -> tensor<3x5x64xbf16>
// CHECK-NEXT: nn.embedding %[[T]][%[[IDS]]] first %[[F]]
// CHECK: nn.func @{{.*}}(%{{.*}}: tensor<3x5xi32>, %{{.*}}: tensor<25x64xbf16>, %[[SUM:.*]]: tensor<3x5x64xbf16>, %{{.*}}: index)
// CHECK: %[[FOUND:.*]] = nn.embedding
// CHECK-NEXT: nn.add %[[SUM]], %[[FOUND]]
// CHECK: nn.step @embed
// CHECK: dist.fetch @table[0] {pending} : tensor<1600xbf16>
// CHECK: %[[A:.*]] = nn.call @embed.tile(%{{.*}}, %{{.*}}, %c0)
// CHECK: nn.call @{{.*}}(%{{.*}}, %{{.*}}, %[[A]], %c25)
// CHECK-NOT: nn.get @t

nn.model @embedded family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{target = sm_90, tile = ["t=2"]}>, config = "{}", weights = {}} {
  nn.state @t role parameter : tensor<50x64xbf16> {memory = #nn<memory file>}
  nn.bucket @table [@t] : tensor<3200xbf16>
  nn.step @embed(%ids: tensor<3x5xi32>) -> tensor<3x5x64xbf16> attributes {kind = #nn.program<eval>, inputs = [#nn.port<ids>], outputs = [#nn.port<value, "y">]} {
    %t = nn.get @t : tensor<50x64xbf16>
    %y = nn.embedding %t[%ids] : (tensor<50x64xbf16>, tensor<3x5xi32>) -> tensor<3x5x64xbf16>
    nn.return %y : tensor<3x5x64xbf16>
  }
}

// -----

// Of a tile that ranks gather, each rank's rows are another part of the table.

// CHECK-LABEL: nn.model @embedded_parts
// CHECK: nn.func @embed.tile(%[[IDS:.*]]: tensor<3x5xi32>, %[[T:.*]]: tensor<16x64xf32>, %[[F0:.*]]: index, %[[F1:.*]]: index)
// CHECK: %[[P0:.*]] = nn.slice %[[T]] dim 0 first %c0
// CHECK: %[[E0:.*]] = nn.embedding %[[P0]][%[[IDS]]] first %[[F0]]
// CHECK: %[[P1:.*]] = nn.slice %[[T]] dim 0 first %c8
// CHECK: %[[E1:.*]] = nn.embedding %[[P1]][%[[IDS]]] first %[[F1]]
// CHECK: nn.add %[[E0]], %[[E1]]
// CHECK: nn.step @embed
// CHECK: nn.call @embed.tile(%{{.*}}, %{{.*}}, %c0{{.*}}, %c16{{.*}})
// CHECK: nn.call @{{.*}}(%{{.*}}, %{{.*}}, %{{.*}}, %c8{{.*}}, %c24{{.*}})

nn.model @embedded_parts family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{batch = {global = 2}, mesh = {data = 2}, tile = ["t=2"]}>, config = "{}", weights = {}} {
  dist.mesh @mesh [#dist.axis<"pipe" = 1>, #dist.axis<"data" = 2>, #dist.axis<"seq" = 1>, #dist.axis<"tensor" = 1>]
  nn.state @t role parameter : tensor<32x64xf32> {trainable}
  nn.bucket @bucket [@t] : tensor<1024xf32> {storage = #dist.sharding<[["data"]], unreduced []>, elements = 2048 : i64}
  nn.step @embed(%ids: tensor<3x5xi32>) -> tensor<3x5x64xf32> attributes {kind = #nn.program<eval>, inputs = [#nn.port<ids>], outputs = [#nn.port<value, "y">]} {
    %p = nn.get @bucket : tensor<1024xf32>
    %f = dist.all_gather %p axes ["data"] dim 0 for "t" : tensor<1024xf32> -> tensor<2048xf32>
    %t = nn.unpack %f : (tensor<2048xf32>) -> tensor<32x64xf32>
    %y = nn.embedding %t[%ids] : (tensor<32x64xf32>, tensor<3x5xi32>) -> tensor<3x5x64xf32>
    nn.return %y : tensor<3x5x64xf32>
  }
}

// -----

// Of 16 bits, sums go on at multiples of 32 rows, which kernels sum in one step:
// 50 rows are a tile of 32 and one of 18. Where tiles stand side by side, they are
// of 25.

// CHECK-LABEL: nn.model @narrow
// CHECK: nn.step @eval
// CHECK: %[[A:.*]] = nn.call @eval.tile(%{{.*}}, %{{.*}}, %c0) {{.*}}tensor<32x64xbf16>, index) -> tensor<3x64xf32>
// CHECK: %[[B:.*]] = nn.call @{{.*}}(%{{.*}}, %{{.*}}, %c32, %[[A]]) {{.*}}tensor<18x64xbf16>, index, tensor<3x64xf32>) -> tensor<3x64xf32>
// CHECK: nn.cast %[[B]] : (tensor<3x64xf32>) -> tensor<3x64xbf16>
// CHECK: nn.call {{.*}}tensor<25x64xbf16>) -> tensor<3x25xbf16>
// CHECK: nn.call {{.*}}tensor<25x64xbf16>) -> tensor<3x25xbf16>

nn.model @narrow family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{tile = ["w*=2"]}>, config = "{}", weights = {}} {
  nn.state @w role parameter : tensor<50x64xbf16> {memory = #nn<memory file>}
  nn.state @w2 role parameter : tensor<50x64xbf16> {memory = #nn<memory file>}
  nn.bucket @parameters [@w, @w2] : tensor<6400xbf16>
  nn.step @eval(%x: tensor<3x50xbf16>) -> tensor<3x50xbf16> attributes {kind = #nn.program<eval>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %w = nn.get @w : tensor<50x64xbf16>
    %w2 = nn.get @w2 : tensor<50x64xbf16>
    %h = nn.linear %x, %w : (tensor<3x50xbf16>, tensor<50x64xbf16>) -> tensor<3x64xbf16>
    %y = nn.linear %h, %w2 {transposed} : (tensor<3x64xbf16>, tensor<50x64xbf16>) -> tensor<3x50xbf16>
    nn.return %y : tensor<3x50xbf16>
  }
}

// -----

// A step that drops the layer skips all calls that replace it. The last one takes
// the layer's input, too, which its result then equals. Weights whose product is
// such a result have no tiles.

// CHECK-LABEL: nn.model @dropped
// CHECK: nn.func @block.{{.*}}(%[[Y:.*]]: tensor<3x5x40xf32>, %{{.*}}: tensor<3x5x40xf32>) -> tensor<3x5x40xf32>
// CHECK-NEXT: nn.map relu(%[[Y]])
// CHECK: nn.step @train(%[[X:.*]]: tensor<3x5x40xf32>
// CHECK: %[[T0:.*]] = nn.call @block.tile(%[[X]], %{{.*}}) path "h.0" when @h.0.kept passes [-1]
// CHECK: %[[T1:.*]] = nn.call @{{.*}}(%[[X]], %{{.*}}) path "h.0.1" when @h.0.kept passes [-1]
// CHECK: %[[Y:.*]] = nn.concat %[[T0]], %[[T1]] dim 2
// CHECK: %[[OUT:.*]] = nn.call @{{.*}}(%[[Y]], %[[X]]) path "h.0.2" when @h.0.kept passes [1]
// CHECK: nn.call @other(%[[OUT]], %{{.*}}) path "h.1" when @h.1.kept passes [0]

nn.model @dropped family "gpt2" phase "spmd" attributes {
    strategy = #dist.strategy<{tile = ["h.*.w=2"]}>, config = "{}", weights = {}} {
  nn.condition @h.0.kept #nn.layer_drop<"h.0", 0.5>
  nn.condition @h.1.kept #nn.layer_drop<"h.1", 0.5>
  nn.state @h.0.w role parameter : tensor<40x40xf32> {memory = #nn<memory file>}
  nn.state @h.1.w role parameter : tensor<40x40xf32> {memory = #nn<memory file>}
  nn.bucket @parameters [@h.0.w, @h.1.w] : tensor<3200xf32>
  nn.func @block(%x: tensor<3x5x40xf32>, %w: tensor<40x40xf32>) -> tensor<3x5x40xf32> {
    %0 = nn.linear %x, %w {transposed} : (tensor<3x5x40xf32>, tensor<40x40xf32>) -> tensor<3x5x40xf32>
    %1 = nn.map relu(%0) : tensor<3x5x40xf32>
    nn.return %1 : tensor<3x5x40xf32>
  }
  nn.func @other(%x: tensor<3x5x40xf32>, %w: tensor<40x40xf32>) -> tensor<3x5x40xf32> {
    %0 = nn.linear %x, %w {transposed} : (tensor<3x5x40xf32>, tensor<40x40xf32>) -> tensor<3x5x40xf32>
    nn.return %0 : tensor<3x5x40xf32>
  }
  nn.step @train(%x: tensor<3x5x40xf32>) -> tensor<3x5x40xf32> attributes {kind = #nn.program<eval>, inputs = [#nn.port<value, "x">], outputs = [#nn.port<value, "y">]} {
    %w0 = nn.get @h.0.w : tensor<40x40xf32>
    %0 = nn.call @block(%x, %w0) path "h.0" when @h.0.kept passes [0] : (tensor<3x5x40xf32>, tensor<40x40xf32>) -> tensor<3x5x40xf32>
    %w1 = nn.get @h.1.w : tensor<40x40xf32>
    %1 = nn.call @other(%0, %w1) path "h.1" when @h.1.kept passes [0] : (tensor<3x5x40xf32>, tensor<40x40xf32>) -> tensor<3x5x40xf32>
    nn.return %1 : tensor<3x5x40xf32>
  }
}
