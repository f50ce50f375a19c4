// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Pushing and Pulling: what one of several tables does in one call.

#include <utility>
#include <vector>

#include "lib/key/value_type.h"
#include "lib/store/rules/named_number.h"
#include "lib/worker/table_access.h"

namespace weir {

class Client;
template <Value T>
class Table;

/// What Client::push() pushes to one table. Table::pushing() makes it. Borrows the table, keys and values.
class [[nodiscard]] Pushing {
private:
    friend class Client;
    template <Value T>
    friend class Table;

    Pushing(const ClientState* state, const access::Item& item, std::vector<NamedNumber> arguments)
        : state_(state), item_(item), arguments_(std::move(arguments)) {}

    const ClientState* state_;
    access::Item item_;
    std::vector<NamedNumber> arguments_;
};

/// What Client::pull() pulls from one table. Table::pulling() makes it. Borrows as Pushing does.
class [[nodiscard]] Pulling {
private:
    friend class Client;
    template <Value T>
    friend class Table;

    Pulling(const ClientState* state, const access::Item& item) : state_(state), item_(item) {}

    const ClientState* state_;
    access::Item item_;
};

}  // namespace weir
