// A decoder that no built-in family has: attention and the MLP stand side by
// side, both read one norm, and a second norm follows attention. Its text is
// written for one row of 16 tokens; heddle compile gives it the rows and tokens
// of --batch and --seq.

nn.model @parallel family "parallel" phase "forward" attributes {
    strategy = #dist.strategy<{}>, config = "{}",
    weights = {max_positions = 512 : i64}} {
  nn.state @embed role parameter : tensor<256x32xf32> {
      source = #nn.source<"embed.weight" : tensor<256x32xf32>>}
  // The files hold q, k and v apart, [out, in]; and both norms in one tensor.
  nn.state @blocks.0.qkv role parameter : tensor<32x64xf32> {
      segments = array<i64: 32, 16, 16>,
      source = #nn.source<concat(1, transpose("blocks.0.q.weight" : tensor<32x32xf32>),
                                    transpose("blocks.0.k.weight" : tensor<16x32xf32>),
                                    transpose("blocks.0.v.weight" : tensor<16x32xf32>))>}
  nn.state @blocks.0.norm role parameter : tensor<32xf32> {
      source = #nn.source<reshape([32], slice(0, 0, 1, "blocks.0.norms" : tensor<2x32xf32>))>}
  nn.state @blocks.0.after role parameter : tensor<32xf32> {
      source = #nn.source<reshape([32], slice(0, 1, 1, "blocks.0.norms" : tensor<2x32xf32>))>}
  nn.state @blocks.0.out role parameter : tensor<32x32xf32> {
      source = #nn.source<"blocks.0.out.weight" : tensor<32x32xf32>>}
  nn.state @blocks.0.up role parameter : tensor<64x32xf32> {
      source = #nn.source<"blocks.0.up.weight" : tensor<64x32xf32>>}
  nn.state @blocks.0.down role parameter : tensor<32x64xf32> {
      source = #nn.source<"blocks.0.down.weight" : tensor<32x64xf32>>}
  nn.state @blocks.1.qkv role parameter : tensor<32x64xf32> {
      segments = array<i64: 32, 16, 16>,
      source = #nn.source<concat(1, transpose("blocks.1.q.weight" : tensor<32x32xf32>),
                                    transpose("blocks.1.k.weight" : tensor<16x32xf32>),
                                    transpose("blocks.1.v.weight" : tensor<16x32xf32>))>}
  nn.state @blocks.1.norm role parameter : tensor<32xf32> {
      source = #nn.source<reshape([32], slice(0, 0, 1, "blocks.1.norms" : tensor<2x32xf32>))>}
  nn.state @blocks.1.after role parameter : tensor<32xf32> {
      source = #nn.source<reshape([32], slice(0, 1, 1, "blocks.1.norms" : tensor<2x32xf32>))>}
  nn.state @blocks.1.out role parameter : tensor<32x32xf32> {
      source = #nn.source<"blocks.1.out.weight" : tensor<32x32xf32>>}
  nn.state @blocks.1.up role parameter : tensor<64x32xf32> {
      source = #nn.source<"blocks.1.up.weight" : tensor<64x32xf32>>}
  nn.state @blocks.1.down role parameter : tensor<32x64xf32> {
      source = #nn.source<"blocks.1.down.weight" : tensor<32x64xf32>>}
  nn.state @last role parameter : tensor<32xf32> {
      source = #nn.source<"last.weight" : tensor<32xf32>>}

  nn.func @block(%x: tensor<1x16x32xf32>, %qkv: tensor<32x64xf32>, %norm: tensor<32xf32>, %after: tensor<32xf32>, %out: tensor<32x32xf32>, %up: tensor<64x32xf32>, %down: tensor<32x64xf32>) -> tensor<1x16x32xf32> {
    %n, %n_rms = nn.rms_norm %x, %norm {eps = 1.0e-5 : f64} : (tensor<1x16x32xf32>, tensor<32xf32>) -> (tensor<1x16x32xf32>, tensor<1x16xf32>)
    %p = nn.linear %n, %qkv : (tensor<1x16x32xf32>, tensor<32x64xf32>) -> tensor<1x16x64xf32>
    %a, %lse = nn.attention %p {heads = #nn.heads<4, kv = 2, scale = 0.3535533905932738>, mask = #nn.mask<causal>} : (tensor<1x16x64xf32>) -> (tensor<1x16x32xf32>, tensor<1x4x16xf32>)
    %o = nn.linear %a, %out {transposed} : (tensor<1x16x32xf32>, tensor<32x32xf32>) -> tensor<1x16x32xf32>
    %m, %m_rms = nn.rms_norm %o, %after {eps = 1.0e-5 : f64} : (tensor<1x16x32xf32>, tensor<32xf32>) -> (tensor<1x16x32xf32>, tensor<1x16xf32>)
    nn.keep %m as "attention" : tensor<1x16x32xf32>
    %u = nn.linear %n, %up {transposed} : (tensor<1x16x32xf32>, tensor<64x32xf32>) -> tensor<1x16x64xf32>
    %g = nn.map gelu(%u) : tensor<1x16x64xf32>
    %d = nn.linear %g, %down {transposed} : (tensor<1x16x64xf32>, tensor<32x64xf32>) -> tensor<1x16x32xf32>
    %s = nn.add %m, %d : tensor<1x16x32xf32>
    %y = nn.add %x, %s : tensor<1x16x32xf32>
    nn.return %y : tensor<1x16x32xf32>
  }

  nn.func @forward(%ids: tensor<1x16xi32>) -> tensor<1x16x256xf32>
      attributes {inputs = [#nn.port<ids>], outputs = [#nn.port<logits>]} {
    %table = nn.get @embed : tensor<256x32xf32>
    %x0 = nn.embedding %table[%ids] : (tensor<256x32xf32>, tensor<1x16xi32>) -> tensor<1x16x32xf32>
    %qkv0 = nn.get @blocks.0.qkv : tensor<32x64xf32>
    %norm0 = nn.get @blocks.0.norm : tensor<32xf32>
    %after0 = nn.get @blocks.0.after : tensor<32xf32>
    %out0 = nn.get @blocks.0.out : tensor<32x32xf32>
    %up0 = nn.get @blocks.0.up : tensor<64x32xf32>
    %down0 = nn.get @blocks.0.down : tensor<32x64xf32>
    %x1 = nn.call @block(%x0, %qkv0, %norm0, %after0, %out0, %up0, %down0) path "blocks.0"
        : (tensor<1x16x32xf32>, tensor<32x64xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32x32xf32>, tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<1x16x32xf32>
    %qkv1 = nn.get @blocks.1.qkv : tensor<32x64xf32>
    %norm1 = nn.get @blocks.1.norm : tensor<32xf32>
    %after1 = nn.get @blocks.1.after : tensor<32xf32>
    %out1 = nn.get @blocks.1.out : tensor<32x32xf32>
    %up1 = nn.get @blocks.1.up : tensor<64x32xf32>
    %down1 = nn.get @blocks.1.down : tensor<32x64xf32>
    %x2 = nn.call @block(%x1, %qkv1, %norm1, %after1, %out1, %up1, %down1) path "blocks.1"
        : (tensor<1x16x32xf32>, tensor<32x64xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32x32xf32>, tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<1x16x32xf32>
    %last = nn.get @last : tensor<32xf32>
    %z, %rms = nn.rms_norm %x2, %last {eps = 1.0e-5 : f64} : (tensor<1x16x32xf32>, tensor<32xf32>) -> (tensor<1x16x32xf32>, tensor<1x16xf32>)
    %logits = nn.linear %z, %table {transposed} : (tensor<1x16x32xf32>, tensor<256x32xf32>) -> tensor<1x16x256xf32>
    nn.return %logits : tensor<1x16x256xf32>
  }
}
