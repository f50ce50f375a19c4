// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// or_shortage: turns a shortage of memory or threads into an Error, so that it does not end the
/// process.

#include <new>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include "lib/base/result.h"

namespace weir::data {

/// The exceptions of the standard library as Errors that say what to do.
[[nodiscard]] Error memory_shortage();
[[nodiscard]] Error system_failure(const std::system_error& error);

/// Calls function(), which returns a Status or a Result, and returns its result. If memory or
/// threads run out in the call, it returns an Error that says so and what to do; for another
/// std::system_error, an Error with its text.
template <class Function>
[[nodiscard]] std::invoke_result_t<Function> or_shortage(Function&& function) {
    try {
        return std::forward<Function>(function)();
    } catch (const std::bad_alloc&) {
        return memory_shortage();
    } catch (const std::length_error&) {  // a list longer than the address space
        return memory_shortage();
    } catch (const std::system_error& error) {
        return system_failure(error);
    }
}

}  // namespace weir::data
