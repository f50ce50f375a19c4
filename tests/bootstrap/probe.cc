// SPDX-License-Identifier: Apache-2.0
/// \file
/// A program for the launcher tests: joins its job by whatever launched it, and prints what it
/// learned.
///
///   bootstrap_probe [--rendezvous HOST:PORT] [--rank R] [--size N] [--absent R] [--die R] [--jobs N] [--mpi LIBRARY]
/// --absent R: rank R never joins. --die R: rank R kills itself once all have joined. --jobs N: one
/// after the other. --mpi LIBRARY: this MPI is initialized before, and finalized after them.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include "lib/base/log.h"
#include "lib/base/random.h"
#include "lib/bootstrap/bootstrap.h"
#include "lib/bootstrap/identity.h"

namespace weir {
namespace {

struct Arguments {
    Config config = Config(Environment::snapshot(environ));
    std::string absent = {};
    std::string die = {};
    std::string mpi = {};
    int jobs = 1;
};

bool parse(int argc, char** argv, Arguments& arguments) {
    for (int i = 1; i < argc; i += 2) {
        const std::string flag = argv[i];
        if (i + 1 == argc) return false;
        const char* const value = argv[i + 1];
        if (flag == "--rendezvous") {
            arguments.config.set_flag("WEIR_RENDEZVOUS", flag, value);
        } else if (flag == "--rank") {
            arguments.config.set_flag("WEIR_RANK", flag, value);
        } else if (flag == "--size") {
            arguments.config.set_flag("WEIR_SIZE", flag, value);
        } else if (flag == "--absent") {
            arguments.absent = value;
        } else if (flag == "--die") {
            arguments.die = value;
        } else if (flag == "--jobs") {
            arguments.jobs = std::atoi(value);
        } else if (flag == "--mpi") {
            arguments.mpi = value;
        } else {
            return false;
        }
    }
    return true;
}

/// Whether a launcher's variable or our flag says that we are the rank which never comes.
bool is_absent(const Arguments& arguments) {
    if (arguments.absent.empty()) return false;
    const Environment& environment = arguments.config.environment();
    return arguments.config.text("WEIR_RANK") == arguments.absent ||
           environment.get("PMIX_RANK") == arguments.absent ||
           environment.get("PMI_RANK") == arguments.absent;
}

/// Any bytes, other ones for every rank, of the greatest length that is allowed.
std::string blob_of(uint32_t rank) {
    Random random(rank + 1);
    std::string blob(Bootstrap::kValueBytesMax, '\0');
    for (char& c : blob)
        c = static_cast<char>(random());
    return blob;
}

Status check_blobs(Bootstrap& bootstrap) {
    for (uint32_t rank = 0; rank < bootstrap.size(); ++rank) {
        WEIR_ASSIGN(const std::string blob, bootstrap.get(rank, "blob"));
        WEIR_ASSIGN(const std::string empty, bootstrap.get(rank, "empty"));
        if (blob != blob_of(rank) || !empty.empty()) {
            return Error(Errc::kProtocol, fmt::format("rank {}'s values arrived changed", rank));
        }
    }
    if (bootstrap.get(0, "nobody-put-this").code() != Errc::kNotFound) {
        return Error(Errc::kProtocol, "a key that nobody put was found");
    }
    return {};
}

Status run(const Arguments& arguments) {
    const SteadyClock clock;
    WEIR_ASSIGN(const auto bootstrap, detect_bootstrap(arguments.config, clock));
    WEIR_ASSIGN(const uint64_t deadline_ns, join_deadline_ns(arguments.config, clock));
    WEIR_TRY(bootstrap->put("blob", blob_of(bootstrap->rank())));
    WEIR_TRY(bootstrap->put("empty", ""));
    WEIR_ASSIGN(
        const JobIdentity identity,
        exchange_identity(*bootstrap, fmt::format("manager-of-{}:{}", getpid(), 4000), deadline_ns,
                          std::string(arguments.config.text("WEIR_SECRET_FILE"))));
    WEIR_TRY(check_blobs(*bootstrap));
    // a second round, as a program with more to say would use it
    WEIR_TRY(bootstrap->put("second", std::to_string(identity.rank)));
    WEIR_TRY(bootstrap->exchange(deadline_ns));
    const uint32_t last = bootstrap->size() - 1;
    WEIR_ASSIGN(const std::string second, bootstrap->get(last, "second"));
    if (second != std::to_string(last)) {
        return Error(Errc::kProtocol, "the second round arrived changed");
    }
    WEIR_TRY(bootstrap->finish());
    uint64_t secret_hash = 0;  // the secret itself must not be printed
    for (const std::byte b : identity.secret) {
        secret_hash = mix64(secret_hash + static_cast<uint64_t>(b) + 1);
    }
    const std::string line =
        fmt::format("probe name={} rank={} size={} manager={} secret={:016x}\n", bootstrap->name(),
                    identity.rank, bootstrap->size(), identity.manager_address, secret_hash);
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) return Error(Errc::kIo, "stdout");
    if (!arguments.die.empty()) {
        if (arguments.die == std::to_string(identity.rank)) (void)::raise(SIGKILL);
        std::this_thread::sleep_for(std::chrono::seconds(2));
        const std::string survived = fmt::format("survived rank={}\n", identity.rank);
        if (::write(STDOUT_FILENO, survived.data(), survived.size()) < 0) {
            return Error(Errc::kIo, "stdout");
        }
    }
    return {};
}

/// All jobs of the process, MPI around them.
Status run_all(const Arguments& arguments) {
    void* mpi = nullptr;
    if (!arguments.mpi.empty()) {
        mpi = ::dlopen(arguments.mpi.c_str(), RTLD_NOW | RTLD_GLOBAL);
        if (mpi == nullptr) return Error(Errc::kNotFound, ::dlerror());
        reinterpret_cast<int (*)(int*, char***)>(::dlsym(mpi, "MPI_Init"))(nullptr, nullptr);
    }
    Status status;
    for (int job = 0; job < arguments.jobs && status; ++job)
        status = run(arguments);
    if (mpi != nullptr) reinterpret_cast<int (*)()>(::dlsym(mpi, "MPI_Finalize"))();
    return status;
}

}  // namespace
}  // namespace weir

int main(int argc, char** argv) {
    weir::set_log_sink(weir::stderr_log_sink());
    weir::Arguments arguments;
    if (!weir::parse(argc, argv, arguments)) {
        fmt::print(stderr, "bootstrap_probe: unknown or incomplete flag\n");
        return 2;
    }
    if (weir::is_absent(arguments)) {
        std::this_thread::sleep_for(std::chrono::seconds(8));  // longer than the tests' time limits
        return 0;
    }
    const weir::Status status = weir::run_all(arguments);
    if (status) return 0;
    fmt::print(stderr, "bootstrap_probe: {}\n", status.error().message());
    return 1;
}
