// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// Owners of the objects that libibverbs returns.

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include <infiniband/verbs.h>

#include "lib/base/result.h"

namespace weir::transport::verbs {

/// Logs that an object could not be released: a bug of ours, or a failing device.
void log_failed_release(const char* what, int code) noexcept;

template <auto kRelease>
struct Release {
    template <class T>
    void operator()(T* object) const noexcept {
        if (const int code = kRelease(object); code != 0) log_failed_release("RDMA object", code);
    }
};

using ContextPtr = std::unique_ptr<ibv_context, Release<ibv_close_device>>;
using PdPtr = std::unique_ptr<ibv_pd, Release<ibv_dealloc_pd>>;
using MrPtr = std::unique_ptr<ibv_mr, Release<ibv_dereg_mr>>;
using CqPtr = std::unique_ptr<ibv_cq, Release<ibv_destroy_cq>>;
using ChannelPtr = std::unique_ptr<ibv_comp_channel, Release<ibv_destroy_comp_channel>>;
using SrqPtr = std::unique_ptr<ibv_srq, Release<ibv_destroy_srq>>;
using QpPtr = std::unique_ptr<ibv_qp, Release<ibv_destroy_qp>>;

/// Pages of this process for message buffers, registered for local use.
class RegisteredPages {
public:
    /// `pd`: nullptr for pages that no device uses (in tests). Errors: kNoMemory
    [[nodiscard]] static Result<RegisteredPages> make(ibv_pd* pd, size_t length_bytes);

    RegisteredPages() = default;

    RegisteredPages(RegisteredPages&& other) noexcept
        : bytes_(std::exchange(other.bytes_, {})), mr_(std::move(other.mr_)) {}

    RegisteredPages& operator=(RegisteredPages&& other) noexcept {
        std::swap(bytes_, other.bytes_);
        std::swap(mr_, other.mr_);
        return *this;
    }

    RegisteredPages(const RegisteredPages&) = delete;
    RegisteredPages& operator=(const RegisteredPages&) = delete;
    ~RegisteredPages();

    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }

    /// 0 if `pd` was nullptr.
    [[nodiscard]] uint32_t lkey() const noexcept { return mr_ == nullptr ? 0 : mr_->lkey; }

private:
    std::span<std::byte> bytes_;
    MrPtr mr_;
};

/// Calls ibv_reg_mr. The error says which limit was reached, and what to set it to.
/// Errors: kNoMemory, kInvalidArgument
[[nodiscard]] Result<MrPtr> register_pages(ibv_pd* pd, std::span<std::byte> bytes, int access);

}  // namespace weir::transport::verbs
