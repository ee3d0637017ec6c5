//===- HttpAddress.cpp - Hosts, peers and paths of HTTP -------------------===//
//
// Part of the Heddle project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "HttpAddress.h"
#include "heddle/runtime/serve/HttpServer.h"

#include <cstring>

namespace asio = boost::asio;

std::string heddle::rt::pathOf(std::string target) {
  for (const char *scheme : {"http://", "https://"})
    if (target.rfind(scheme, 0) == 0) {
      size_t path = target.find('/', strlen(scheme));
      target = path == std::string::npos ? "/" : target.substr(path);
      break;
    }
  return target.substr(0, target.find('?'));
}

std::string heddle::rt::nameOf(const asio::ip::address &peer) {
  if (peer.is_v6() && peer.to_v6().is_v4_mapped())
    return asio::ip::make_address_v4(asio::ip::v4_mapped, peer.to_v6())
        .to_string();
  return peer.to_string();
}

std::string heddle::rt::hostAndPort(const std::string &host, uint16_t port) {
  bool isBare = host.find(':') != std::string::npos && host.front() != '[';
  return (isBare ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::string heddle::rt::withoutBrackets(const std::string &host) {
  bool has = host.size() > 2 && host.front() == '[' && host.back() == ']';
  return has ? host.substr(1, host.size() - 2) : host;
}

std::string heddle::rt::helpForHost(const std::string &host) {
  size_t colon = host.rfind(':');
  std::string port = colon == std::string::npos ? "" : host.substr(colon + 1);
  if (!port.empty() && port.find_first_not_of("0123456789") == port.npos)
    return "give the port by itself: --host " + host.substr(0, colon) +
           " --port " + port;
  return "give an address of this machine: --host 127.0.0.1, or --host 0.0.0.0 "
         "for all of them";
}
