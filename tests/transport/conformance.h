// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// The conformance suite: cases that hold every backend to the contract of transport/transport.h,
/// through that interface only. A backend takes part by a Fabric of its own and one Registration:
///
///     class ShmFabric final : public conformance::Fabric { ... };   // devices, time, nobody()
///     const conformance::Registration kShm{"shm", [] { return make_shm_fabric(); }};
///
/// in a source listed in `conformance_sources`. A factory that answers with an error is skipped
/// aloud. WEIR_CONFORMANCE=shm,sim limits the run to those backends; WEIR_CONFORMANCE_CYCLES sets
/// the number of connect/close cycles; WEIR_CONFORMANCE_PATIENCE_S how long nothing may happen.

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/sanitizers.h"
#include "transport/transport.h"

namespace weir::transport::conformance {

/// A sanitizer keeps freed memory, so that growth says nothing.
inline constexpr bool kResidentMemoryTells = !testing::kHasSanitizer;

/// For backends that lose a peer whose host is silent. Cases leave a peer unpolled, with all buffers
/// full, and on a busy machine that may last; no host is silent here.
inline constexpr uint32_t kSilenceMsMax = 100'000;

/// What a process holds, to be compared before and after.
struct Usage {
    size_t open_files = 0;
    size_t resident_bytes = 0;
};

/// Usage of the calling process.
[[nodiscard]] Usage own_usage();

/// The surroundings of one case: the devices of two processes (or hosts), their memory and time.
/// Process 0 is the one that runs the test; process 1 may be it too. Made anew for every case.
class Fabric {
public:
    Fabric() = default;
    Fabric(const Fabric&) = delete;
    Fabric& operator=(const Fabric&) = delete;
    /// Unmaps what make_memory() made: after the devices, which the derived class holds, are gone.
    virtual ~Fabric();

    /// The device of process 0 or 1; both may be the same object.
    [[nodiscard]] virtual Device& device(size_t process) = 0;

    /// A device with another job's secret, or nullptr where there are no secrets.
    [[nodiscard]] virtual Device* stranger() { return nullptr; }

    /// A well-formed address at which no endpoint listens.
    [[nodiscard]] virtual std::string nobody() = 0;

    /// Zeroed pages of process `process` that this process sees at the returned address too.
    /// Lives as long as the fabric. The default makes and maps a memfd that cannot
    /// shrink.
    [[nodiscard]] virtual MemoryBlock make_memory(size_t process, size_t length_bytes);

    /// Lets a little time pass: simulated time, or now and then a turn for other threads.
    virtual void advance();

    /// The time that deadlines are measured in.
    [[nodiscard]] virtual uint64_t now_ns() const;

    /// Kills process 1 before it can close its connections (SIGKILL, or the same in a simulation). Returns false
    /// where there is nothing that could be killed: the case then destroys the endpoint instead.
    virtual bool kill_other() { return false; }

    /// Whether the endpoints of one device may live in different threads here.
    [[nodiscard]] virtual bool has_threads() const { return false; }

    [[nodiscard]] virtual Usage usage(size_t /*process*/) const { return own_usage(); }

private:
    std::vector<MemoryBlock> made_;
    uint32_t advances_ = 0;
};

using FabricFactory = std::function<Result<std::unique_ptr<Fabric>>()>;

struct Backend {
    std::string name;
    FabricFactory make;
};

/// Adds a backend to what conformance_test runs; a namespace-scope constant of the backend's tests.
class Registration {
public:
    Registration(std::string name, FabricFactory make);
};

/// All that registered, by name.
[[nodiscard]] std::vector<Backend> registered_backends();

struct Case {
    const char* sentence;
    void (*run)(Fabric& fabric);
};

[[nodiscard]] std::span<const Case> cases();

/// Runs every case as a doctest SUBCASE with a fresh fabric; to be called directly in a TEST_CASE.
void run_cases(const Backend& backend);

}  // namespace weir::transport::conformance
