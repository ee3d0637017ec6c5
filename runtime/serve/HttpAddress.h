//===- HttpAddress.h - Hosts, peers and paths -------------------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_RUNTIME_SERVE_HTTPADDRESS_H
#define HEDDLE_LIB_RUNTIME_SERVE_HTTPADDRESS_H

#include <boost/asio/ip/address.hpp>
#include <string>

namespace heddle::rt {

/// The path of a request's target, which a proxy is sent in the absolute form
/// (RFC 9112, 3.2.2), without its query.
std::string pathOf(std::string target);
/// An address of IPv4 that a socket of IPv6 sees is named as what it is.
std::string nameOf(const boost::asio::ip::address &peer);
/// An address of IPv6 without the brackets that it has in a URL.
std::string withoutBrackets(const std::string &host);
/// What to write for a --host that has no address.
std::string helpForHost(const std::string &host);

} // namespace heddle::rt

#endif // HEDDLE_LIB_RUNTIME_SERVE_HTTPADDRESS_H
