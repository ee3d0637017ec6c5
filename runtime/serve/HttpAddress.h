//===- HttpAddress.h - Hosts, peers and paths of HTTP -----------*- C++ -*-===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Small helpers of the HTTP server for addresses and paths.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_RUNTIME_SERVE_HTTPADDRESS_H
#define HEDDLE_LIB_RUNTIME_SERVE_HTTPADDRESS_H

#include <boost/asio/ip/address.hpp>
#include <string>

namespace heddle::rt {

/// Returns the path of a request's target without its query. The target may be
/// a whole URL, as requests to a proxy have it (RFC 9112, 3.2.2).
std::string pathOf(std::string target);
/// Formats an address; an IPv4 client of an IPv6 socket is shown as IPv4.
std::string nameOf(const boost::asio::ip::address &peer);
/// Removes the brackets that an IPv6 address has in a URL.
std::string withoutBrackets(const std::string &host);
/// Returns the help text of the error for a --host that does not resolve.
std::string helpForHost(const std::string &host);

} // namespace heddle::rt

#endif // HEDDLE_LIB_RUNTIME_SERVE_HTTPADDRESS_H
