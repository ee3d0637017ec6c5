// RUN: heddle-opt %s --canonicalize | FileCheck %s

// A reshard between equal shardings is nothing.
// CHECK-LABEL: nn.func @nothing
// CHECK-SAME: %[[X:.*]]: tensor<8xf32>
// CHECK-NEXT: nn.return %[[X]]
nn.func @nothing(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = dist.reshard %x from <[["data"]], unreduced []> to <[["data"]], unreduced []> for "nn.linear" : tensor<8xf32>
  nn.return %0 : tensor<8xf32>
}

// CHECK-LABEL: nn.func @unused
// CHECK-NEXT: nn.return
nn.func @unused(%x: tensor<8xf32>) {
  %0 = dist.reshard %x from <[["data"]], unreduced []> to <[[]], unreduced []> for "nn.linear" : tensor<8xf32>
  nn.return
}

// One that moves data stays, though the type is the same.
// CHECK-LABEL: nn.func @gather
nn.func @gather(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: %[[Y:.*]] = dist.reshard
  %0 = dist.reshard %x from <[["data"]], unreduced []> to <[[]], unreduced []> for "nn.linear" : tensor<8xf32>
  // CHECK: nn.return %[[Y]]
  nn.return %0 : tensor<8xf32>
}

// CHECK-LABEL: nn.func @reduce
nn.func @reduce(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: %[[Y:.*]] = dist.reshard
  %0 = dist.reshard %x from <[[]], unreduced ["data"]> to <[[]], unreduced []> for "nn.set" : tensor<8xf32>
  // CHECK: nn.return %[[Y]]
  nn.return %0 : tensor<8xf32>
}
