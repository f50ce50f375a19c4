// SPDX-License-Identifier: Apache-2.0
#include "transport/net/reserved_port.h"

#include <cerrno>

#include <doctest/doctest.h>
#include <sys/socket.h>

#include "transport/net/socket.h"

namespace weir::transport {
namespace {

SocketAddress address_of(const ReservedPort& port) {
    return SocketAddress::parse_host("127.0.0.1", port.number()).value();
}

/// The errno with which a blocking connect ends; 0 if there is a connection.
int connect_to(const SocketAddress& to) {
    const Descriptor fd(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::connect(fd.get(), to.raw(), to.raw_bytes()) == 0 ? 0 : errno;
}

/// The errno of a bind without SO_REUSEADDR, which fails wherever another socket is bound.
int bind_alone(const SocketAddress& to) {
    const Descriptor fd(::socket(to.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
    return ::bind(fd.get(), to.raw(), to.raw_bytes()) == 0 ? 0 : errno;
}

}  // namespace

TEST_SUITE("reserved port") {
    TEST_CASE("a program can listen on a reserved port, and again after it has closed its socket") {
        const auto port = ReservedPort::make();
        REQUIRE(port);
        REQUIRE(port->number() != 0);
        for (int round = 0; round < 2; ++round) {
            CHECK(connect_to(address_of(*port)) == ECONNREFUSED);
            const auto listener = listen_on(address_of(*port));
            REQUIRE(listener);
            CHECK(connect_to(address_of(*port)) == 0);
            CHECK(listen_on(address_of(*port)).code() == Errc::kAlreadyExists);
        }
    }

    TEST_CASE("a reserved port is bound until its owner lets it go") {
        SocketAddress address;
        {
            const auto port = ReservedPort::make();
            const auto other = ReservedPort::make();
            REQUIRE((port && other));
            CHECK(port->number() != other->number());
            address = address_of(*port);
            CHECK(bind_alone(address) == EADDRINUSE);
        }
        CHECK(listen_on(address));
    }
}

}  // namespace weir::transport
