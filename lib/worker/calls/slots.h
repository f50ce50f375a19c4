// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Slots: objects named by number and generation. The id of a released slot finds nothing: so a
/// late reply to a finished request, or a task handle kept too long, cannot reach another
/// object. Nothing is allocated once warm.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

namespace weir {

/// References stay valid until release().
///
/// Thread: one
template <class T>
class Slots {
public:
    static constexpr uint32_t kIndexBits = 20;
    static constexpr uint32_t kCountMax = 1u << kIndexBits;

    /// A slot with a fresh value, or nullptr if kCountMax are in use. `id` is never 0.
    T* acquire(uint64_t& id) {
        uint32_t index = 0;
        if (!free_.empty()) {
            index = free_.back();
            free_.pop_back();
        } else {
            if (begun_ == kCountMax) return nullptr;
            index = begun_;
            if (index / kChunk == chunks_.size()) chunks_.push_back(std::make_unique<Chunk>());
            ++begun_;
        }
        Slot& slot = at(index);
        slot.used = true;
        ++in_use_;
        id = (slot.generation << kIndexBits) | index;
        return &slot.value;
    }

    /// The slot with this id, or nullptr if it was released.
    [[nodiscard]] T* find(uint64_t id) noexcept {
        const uint64_t index = id & (kCountMax - 1);
        if (index >= begun_) return nullptr;
        Slot& slot = at(index);
        return slot.used && slot.generation == id >> kIndexBits ? &slot.value : nullptr;
    }

    /// The slot in use whose id has these low 32 bits, or nullptr; `id` gets all 64.
    [[nodiscard]] T* find_low(uint32_t low, uint64_t& id) noexcept {
        const uint32_t index = low & (kCountMax - 1);
        if (index >= begun_ || !at(index).used) return nullptr;
        id = (at(index).generation << kIndexBits) | index;
        return static_cast<uint32_t>(id) == low ? &at(index).value : nullptr;
    }

    void release(uint64_t id) {
        static_assert(std::is_nothrow_default_constructible_v<T> &&
                      std::is_nothrow_destructible_v<T>);
        const auto index = static_cast<uint32_t>(id & (kCountMax - 1));
        Slot& slot = at(index);
        slot.used = false;
        std::destroy_at(&slot.value);
        std::construct_at(&slot.value);
        ++slot.generation;
        free_.push_back(index);
        if (--in_use_ > 0) return;
        begun_ = 0;  // otherwise one burst would make for_each() slow for ever
        free_.clear();
    }

    [[nodiscard]] size_t in_use() const noexcept { return in_use_; }

    /// Whether `count` more slots can be acquired.
    [[nodiscard]] bool has_room(size_t count) const noexcept {
        return count <= kCountMax - in_use_;
    }

    /// Calls function(id, value) for every slot in use. `function` may release the slot it is
    /// given.
    template <class Function>
    void for_each(Function&& function) {
        for (size_t index = 0; index < begun_; ++index) {
            Slot& slot = at(index);
            if (slot.used) function((slot.generation << kIndexBits) | index, slot.value);
        }
    }

private:
    struct Slot {
        T value{};
        uint64_t generation = 1;
        bool used = false;
    };

    static constexpr size_t kChunk = 64;  ///< slots come in chunks, so that they never move
    using Chunk = std::array<Slot, kChunk>;

    [[nodiscard]] Slot& at(size_t index) noexcept {
        return (*chunks_[index / kChunk])[index % kChunk];
    }

    std::vector<std::unique_ptr<Chunk>> chunks_;
    uint32_t begun_ = 0;          ///< all slots in use have an index below this
    std::vector<uint32_t> free_;  ///< free indices below begun_
    size_t in_use_ = 0;
};

}  // namespace weir
