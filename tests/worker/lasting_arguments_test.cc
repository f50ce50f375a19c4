// SPDX-License-Identifier: Apache-2.0
/// \file
/// What a task uses until it has ended must live so long: keys and values that end with the statement do not
/// compile, nor does what could mean two things. The checks are the compiler's.

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "lib/key/key_batch.h"
#include "lib/worker/iterations.h"
#include "lib/worker/table.h"

namespace weir {
namespace {

using Keys = std::vector<uint64_t>;
using Floats = std::vector<float>;
using Flags = std::vector<uint8_t>;
using Rows = std::vector<std::byte>;
using Narrows = std::vector<BFloat16>;

template <class K, class V>
concept MayPush = requires(Table<float>& table, K&& keys, V&& values) {
    table.push(std::forward<K>(keys), std::forward<V>(values));
};

template <class K, class V>
concept MayPull = requires(Table<float>& table, K&& keys, V&& values) {
    table.pull(std::forward<K>(keys), std::forward<V>(values));
};

template <class K, class V>
concept MayIterate = requires(Iterations& all, Table<float>& table, K&& keys, V&& values) {
    all.push(table, std::forward<K>(keys), std::forward<V>(values));
};

template <class K, class V>
concept MayPullInIteration = requires(Iterations& all, Table<float>& table, K&& keys, V&& values) {
    all.pull(table, std::forward<K>(keys), std::forward<V>(values));
};

template <class K, class V, class O>
concept MayPushPull = requires(Table<float>& table, K&& keys, V&& values, O&& out) {
    table.push_pull(std::forward<K>(keys), std::forward<V>(values), std::forward<O>(out));
};

template <class K, class F>
concept MayAsk = requires(Table<float>& table, K&& keys, F&& flags) {
    table.contains(std::forward<K>(keys), std::forward<F>(flags));
};

template <class K>
concept MayErase = requires(Table<float>& table, K&& keys) {
    table.erase(std::forward<K>(keys));
    table.expire(std::forward<K>(keys), 7);
};

template <class K, class R>
concept MayPushRows = requires(Table<float>& table, K&& keys, R&& rows) {
    table.push_rows(std::forward<K>(keys), std::forward<R>(rows));
};

template <class K, class R>
concept MayPullRows = requires(Table<float>& table, K&& keys, R&& rows) {
    table.pull_rows(std::forward<K>(keys), std::forward<R>(rows));
};

template <class K, class O>
concept MayPullNarrow = requires(Table<float>& table, K&& keys, O&& out) {
    table.pull_narrow(std::forward<K>(keys), std::forward<O>(out));
};

/// In a call of several tables.
template <class K, class V>
concept MayBePushed = requires(Client& client, Table<float>& table, K&& keys, V&& values) {
    client.push({table.pushing(std::forward<K>(keys), std::forward<V>(values))});
};

template <class K, class V>
concept MayBePulled = requires(Client& client, Table<float>& table, K&& keys, V&& values) {
    client.pull({table.pulling(std::forward<K>(keys), std::forward<V>(values))});
};

template <class V>
concept MayReduce = requires(Client& client, V&& values) {
    client.allreduce(std::forward<V>(values));
};

template <class V>
concept MayBroadcast = requires(Client& client, V&& values) {
    client.broadcast(std::forward<V>(values), 0);
};

// What has a name, and views of it.
static_assert(MayPush<Keys&, Floats&> && MayPush<const Keys&, const Floats&>);
static_assert(MayPush<std::span<const uint64_t>, std::span<const float>>);
static_assert(MayPush<std::array<int64_t, 3>&, float (&)[3]> && MayPush<Keys&, Buffer<float>&>);
static_assert(MayPush<KeyRange, Floats&> && MayPush<KeyRange, std::span<float>>);
static_assert(MayPull<Keys&, Floats&> && MayPull<KeyRange, Buffer<float>&>);
static_assert(MayIterate<Keys&, Floats&> && MayIterate<KeyRange, Floats&>);
static_assert(MayPullInIteration<Keys&, Floats&> && MayPullInIteration<KeyRange, Floats&>);
static_assert(MayIterate<KeyBatch&, Floats&> && MayPullInIteration<KeyBatch&, Floats&>);
static_assert(MayPush<KeyBatch&, Floats&> && MayPull<KeyBatch&, Buffer<float>&>);
static_assert(MayPushPull<Keys&, const Floats&, Floats&> &&
              MayPushPull<KeyBatch&, Floats&, Floats&>);
static_assert(MayPushPull<KeyRange, Buffer<float>&, std::span<float>>);
static_assert(MayAsk<Keys&, Flags&> && MayAsk<KeyBatch&, std::span<uint8_t>>);
static_assert(MayErase<Keys&> && MayErase<KeyBatch&> && MayErase<std::span<const uint64_t>>);
static_assert(MayPushRows<Keys&, const Rows&> && MayPushRows<KeyRange, std::span<std::byte>>);
static_assert(MayPullRows<Keys&, Rows&> && MayPullRows<KeyRange, std::span<std::byte>>);
static_assert(MayPullNarrow<Keys&, Narrows&> && MayPullNarrow<KeyRange, Buffer<Float16>&>);
static_assert(MayBePushed<Keys&, const Floats&> && MayBePushed<KeyRange, std::span<const float>>);
static_assert(MayBePushed<KeyBatch&, Floats&> && MayBePulled<KeyBatch&, Buffer<float>&>);
static_assert(MayBePulled<Keys&, Floats&> && MayBePulled<KeyRange, std::span<float>>);
static_assert(MayReduce<Floats&> && MayReduce<std::span<int64_t>> && MayReduce<Buffer<double>&>);
static_assert(MayReduce<double (&)[3]> && MayBroadcast<std::array<uint32_t, 2>&>);

// Temporaries that own what they have.
static_assert(!MayPush<Keys, Floats&> && !MayPush<const Keys, Floats&> && !MayPush<Keys&, Floats>);
static_assert(!MayPush<Keys&, const Floats> && !MayPush<KeyRange, Floats>);
static_assert(!MayPush<std::array<uint64_t, 3>, Floats&> && !MayPush<Keys&, std::array<float, 3>>);
static_assert(!MayPush<Keys&, Buffer<float>> && !MayPull<Keys&, Buffer<float>>);
static_assert(!MayPull<Keys, Floats&> && !MayPull<Keys&, Floats> && !MayPull<KeyRange, Floats>);
static_assert(!MayIterate<Keys, Floats&> && !MayIterate<Keys&, Floats>);
static_assert(!MayIterate<KeyRange, Floats> && !MayPullInIteration<Keys, Floats&>);
static_assert(!MayPullInIteration<Keys&, Floats> && !MayPullInIteration<KeyRange, Floats>);
static_assert(!MayIterate<KeyBatch, Floats&> && !MayPullInIteration<KeyBatch&, Floats>);
static_assert(!MayPush<KeyBatch, Floats&> && !MayPull<KeyBatch&, Floats>);
static_assert(!MayPush<const KeyBatch&, Floats&>);  // it keeps memory for the rows
static_assert(!MayPushPull<Keys, Floats&, Floats&> && !MayPushPull<Keys&, Floats, Floats&>);
static_assert(!MayPushPull<Keys&, Floats&, Floats> && !MayPushPull<KeyRange, Floats&, Floats>);
static_assert(!MayPushPull<KeyBatch&, Floats, Floats&> && !MayPushPull<KeyBatch, Floats&, Floats&>);
static_assert(!MayAsk<Keys, Flags&> && !MayAsk<Keys&, Flags> && !MayAsk<KeyBatch, Flags&>);
static_assert(!MayErase<Keys> && !MayErase<const Keys> && !MayErase<KeyBatch>);
static_assert(!MayPushRows<Keys, Rows&> && !MayPushRows<Keys&, Rows>);
static_assert(!MayPushRows<KeyRange, Rows> && !MayPullRows<KeyRange, Rows>);
static_assert(!MayPullRows<Keys, Rows&> && !MayPullRows<Keys&, Rows>);
static_assert(!MayPullNarrow<Keys, Narrows&> && !MayPullNarrow<Keys&, Narrows>);
static_assert(!MayPullNarrow<KeyRange, Narrows> && !MayPullNarrow<KeyRange, Buffer<Float16>>);
static_assert(!MayBePushed<Keys, Floats&> && !MayBePushed<Keys&, Floats>);
static_assert(!MayBePushed<KeyRange, Floats> && !MayBePushed<KeyBatch, Floats&>);
static_assert(!MayBePulled<Keys, Floats&> && !MayBePulled<Keys&, Floats>);
static_assert(!MayBePulled<KeyRange, Floats> && !MayBePulled<KeyBatch&, Buffer<float>>);
static_assert(!MayReduce<Floats> && !MayReduce<Buffer<double>> && !MayReduce<std::array<float, 2>>);
static_assert(!MayBroadcast<Floats>);

// Views of temporaries.
template <class B>
concept GivesKeys = requires(B&& batch) {
    std::forward<B>(batch).keys();
};

template <class B>
concept GivesSpan = requires(B&& buffer) {
    std::forward<B>(buffer).span();
};

static_assert(GivesKeys<KeyBatch&> && GivesKeys<const KeyBatch&> && !GivesKeys<KeyBatch>);
static_assert(GivesSpan<Buffer<float>&> && !GivesSpan<Buffer<float>>);

// Two numbers in braces: they could be keys or a range.
template <class C>
concept TakesBraces = requires(C& table, Floats& values) {
    table.push({3, 5}, values);
}

|| requires(C& table, Floats& values) {
    table.pull({3, 5}, values);
}

|| requires(C& table, Floats& values) {
    table.push_pull({3, 5}, values, values);
}

|| requires(C& table, Floats& values) {
    table.pushing({3, 5}, values);
}

|| requires(C& table, Floats& values) {
    table.pulling({3, 5}, values);
}

|| requires(C& table, Flags& flags) {
    table.contains({3, 5}, flags);
}

|| requires(C& table) {
    table.erase({3, 5});
}

|| requires(C& table) {
    table.expire({3, 5}, 7);
}

|| requires(C& table, Rows& rows) {
    table.push_rows({3, 5}, rows);
}

|| requires(C& table, Rows& rows) {
    table.pull_rows({3, 5}, rows);
}

|| requires(C& table, Narrows& out) {
    table.pull_narrow({3, 5}, out);
};

template <class I>
concept IteratesBraces = requires(I& all, Table<float>& table, Floats& values) {
    all.push(table, {3, 5}, values);
}

|| requires(I& all, Table<float>& table, Floats& values) {
    all.pull(table, {3, 5}, values);
};

static_assert(!TakesBraces<Table<float>> && !IteratesBraces<Iterations>);

// Not what they are for.
static_assert(!MayPull<Keys&, const Floats&> && !MayPush<std::vector<int>&, Floats&>);
static_assert(!MayPush<Keys&, std::vector<double>&>);
static_assert(!MayAsk<Keys&, Floats&> && !MayAsk<Keys&, const Flags&> && !MayAsk<KeyRange, Flags&>);
static_assert(!MayReduce<const Floats&> && !MayReduce<std::vector<int16_t>&>);

}  // namespace

TEST_SUITE("lasting arguments") {
    TEST_CASE("a batch copies its keys, so it may be made of temporaries") {
        const KeyBatch batch(Keys{7, 3, 7});
        CHECK(std::vector(batch.keys().begin(), batch.keys().end()) == Keys{3, 7});
        KeyBatch other;
        other.assign(std::vector<int64_t>{5, 5});
        CHECK(other.keys().size() == 1);
    }
}

}  // namespace weir
