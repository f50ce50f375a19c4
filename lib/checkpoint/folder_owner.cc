// SPDX-License-Identifier: Apache-2.0
#include "lib/checkpoint/folder_owner.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/descriptor.h"
#include "lib/base/log.h"
#include "lib/base/machine/sys_file.h"
#include "lib/checkpoint/folder.h"

namespace weir::checkpoint {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr std::string_view kMagic = "weir-owner 1";
constexpr size_t kFileBytesMax = 4096;
constexpr size_t kProcessesMax = 16;
constexpr milliseconds kLook(200);

/// What the file says, and how old its last sign of life is.
struct Owner {
    uint64_t job = 0;
    uint64_t began_s = 0;  ///< since 1970, by its host
    std::vector<OwnerProcess> processes;
    nanoseconds touched{};  ///< by the clock of whoever keeps the file
};

Error owner_failed(const std::string& path, std::string_view what, int reason) {
    return {
        reason == ENOENT ? Errc::kNotFound : Errc::kIo,
        fmt::format("{}: {}; look at the disk and at the permissions of the folder", path, what),
        reason};
}

/// Takes what is before `end` from the text, and the end.
std::string_view cut(std::string_view& text, char end) {
    const size_t at = std::min(text.find(end), text.size());
    const std::string_view word = text.substr(0, at);
    text.remove_prefix(std::min(at + 1, text.size()));
    return word;
}

std::optional<uint64_t> number_of(std::string_view text, int base = 10) {
    uint64_t number = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number, base);
    if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return number;
}

/// Of a process in the PID namespace of this one: when it was started; nothing if it has ended.
std::optional<uint64_t> start_of(uint64_t pid) {
    const std::optional<std::string> text = read_sys_text(fmt::format("/proc/{}/stat", pid));
    if (!text) return std::nullopt;
    std::string_view rest = *text;
    rest.remove_prefix(std::min(rest.rfind(')'), rest.size()));  // behind its name
    (void)cut(rest, ' ');
    const std::string_view state = cut(rest, ' ');
    if (state == "Z" || state == "X") return std::nullopt;
    for (int field = 4; field < 22; ++field)
        (void)cut(rest, ' ');
    return number_of(cut(rest, ' '));
}

std::string boot_of_this_host() {
    char space[64] = {};
    const ssize_t length = ::readlink("/proc/self/ns/pid", space, sizeof space - 1);
    std::string boot = read_sys_text("/proc/sys/kernel/random/boot_id").value_or("unknown");
    if (length > 0)
        boot += fmt::format("/{}", std::string_view(space, static_cast<size_t>(length)));
    return boot;
}

/// All of them were here, and have ended.
bool have_ended(const Owner& owner) {
    const std::string boot = boot_of_this_host();
    return !owner.processes.empty() &&
           std::ranges::all_of(owner.processes, [&](const OwnerProcess& process) {
               return process.boot == boot && start_of(process.pid) != process.started;
           });
}

/// One of them is here, and lives.
bool is_alive_here(const Owner& owner) {
    const std::string boot = boot_of_this_host();
    return std::ranges::any_of(owner.processes, [&](const OwnerProcess& process) {
        return process.boot == boot && start_of(process.pid) == process.started;
    });
}

std::string encode(uint64_t job, uint64_t began_s, const std::vector<OwnerProcess>& processes) {
    std::string text = fmt::format("{}\njob {:016x}\nbegan {}\n", kMagic, job, began_s);
    for (const OwnerProcess& process : processes)
        text += fmt::format("process {}\n", process.encode());
    return text;
}

/// A file that is damaged names nobody, and only its age counts.
Owner decode(std::string_view text) {
    Owner owner;
    if (cut(text, '\n') != kMagic) return owner;
    while (!text.empty()) {
        std::string_view line = cut(text, '\n');
        const std::string_view name = cut(line, ' ');
        if (name == "job") owner.job = number_of(line, 16).value_or(0);
        if (name == "began") owner.began_s = number_of(line).value_or(0);
        if (name != "process" || owner.processes.size() == kProcessesMax) continue;
        if (Result<OwnerProcess> process = OwnerProcess::decode(line))
            owner.processes.push_back(*std::move(process));
    }
    return owner;
}

nanoseconds time_of(const timespec& time) {
    return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

/// Opens it anew each time: only then does a network file system ask its server. Nothing: there is none.
Result<std::optional<Owner>> read_owner(const std::string& path) {
    const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd && errno == ENOENT) return std::optional<Owner>();
    struct stat facts = {};
    char bytes[kFileBytesMax];
    const ssize_t length = fd ? ::read(fd.get(), bytes, sizeof bytes) : -1;
    if (length < 0 || ::fstat(fd.get(), &facts) != 0)
        return owner_failed(path, "cannot be read", errno);
    Owner owner = decode({bytes, static_cast<size_t>(length)});
    owner.touched = time_of(facts.st_mtim);
    return std::optional<Owner>(std::move(owner));
}

std::string text_of(const Owner& owner) {
    if (owner.processes.empty()) return "another job";
    const OwnerProcess& first = owner.processes.front();
    const auto began = static_cast<time_t>(owner.began_s);
    std::tm parts = {};
    char time[32] = {};
    if (::localtime_r(&began, &parts) == nullptr ||
        std::strftime(time, sizeof time, "%F %T", &parts) == 0) {
        time[0] = '\0';
    }
    return fmt::format("the job of process {} on host {}, which began at {}", first.pid, first.host,
                       time);
}

Error owned(const std::string& folder, const Owner& owner) {
    return {
        Errc::kRefused,
        fmt::format("{}: {} writes its checkpoints there; give each job a folder of its own, or "
                    "end that one first",
                    folder, text_of(owner))};
}

/// A new file with a name of its own beside the owner's. The destructor removes it.
class Draft {
public:
    [[nodiscard]] static Result<Draft> write(const std::string& folder, uint64_t job,
                                             std::string_view text) {
        Draft draft(path_of(folder, fmt::format("{}.{:016x}", kOwnerName, job)));
        (void)::unlink(draft.path_.c_str());  // an attempt that was killed
        const Descriptor fd(
            ::open(draft.path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
        if (!fd) return owner_failed(draft.path_, "cannot be created", errno);
        const ssize_t done = ::write(fd.get(), text.data(), text.size());
        if (done != static_cast<ssize_t>(text.size()) || ::fsync(fd.get()) != 0)
            return owner_failed(draft.path_, "cannot be written", errno);
        struct stat facts = {};
        if (::fstat(fd.get(), &facts) != 0)
            return owner_failed(draft.path_, "cannot be read", errno);
        draft.written_ = time_of(facts.st_mtim);
        return draft;
    }

    Draft(Draft&& other) noexcept
        : path_(std::exchange(other.path_, {})), written_(other.written_) {}

    Draft& operator=(Draft&&) = delete;
    Draft(const Draft&) = delete;
    Draft& operator=(const Draft&) = delete;

    ~Draft() {
        if (!path_.empty()) (void)::unlink(path_.c_str());
    }

    /// By the clock of whoever keeps the files.
    [[nodiscard]] nanoseconds written() const noexcept { return written_; }

    /// Gives it that name if no file has it. False: one has. A server's answer may get lost, so the number of
    /// names counts.
    [[nodiscard]] Result<bool> link_to(const std::string& path) const {
        if (::link(path_.c_str(), path.c_str()) == 0) return true;
        const int reason = errno;
        struct stat facts = {};
        if (::stat(path_.c_str(), &facts) == 0 && facts.st_nlink == 2) return true;
        if (reason == EEXIST) return false;
        // A file system without second names.
        if (::renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0)
            return true;
        if (errno == EEXIST) return false;
        return owner_failed(path, "cannot be created", reason);
    }

    [[nodiscard]] Status replace(const std::string& path) const {
        if (::rename(path_.c_str(), path.c_str()) != 0)
            return owner_failed(path, "cannot be written", errno);
        return {};
    }

private:
    explicit Draft(std::string path) : path_(std::move(path)) {}

    std::string path_;
    nanoseconds written_{};
};

/// Puts the draft in the place of an owner that is gone. Of several that try only one does: it has another
/// file meanwhile, which none else can make. False: another one was faster.
Result<bool> take_over(const Draft& draft, const std::string& path, const Owner& gone,
                       const OwnerTimes& times) {
    const std::string guard = path + ".taken";
    const Descriptor fd(::open(guard.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!fd) {
        struct stat facts = {};
        if (errno != EEXIST) return owner_failed(guard, "cannot be created", errno);
        // One that was killed just then has left it.
        if (::stat(guard.c_str(), &facts) == 0 &&
            draft.written() - time_of(facts.st_mtim) > times.gone) {
            (void)::unlink(guard.c_str());
        }
        return false;
    }
    Status done;
    const Result<std::optional<Owner>> still = read_owner(path);
    const bool is_same = still && *still && (*still)->job == gone.job;
    if (is_same) done = draft.replace(path);
    (void)::unlink(guard.c_str());
    WEIR_TRY(done);
    return is_same;
}

}  // namespace

OwnerProcess OwnerProcess::here() {
    OwnerProcess process;
    process.boot = boot_of_this_host();
    process.pid = static_cast<uint64_t>(::getpid());
    process.started = start_of(process.pid).value_or(0);
    char name[64] = {};
    if (::gethostname(name, sizeof name - 1) == 0) process.host = name;
    return process;
}

std::string OwnerProcess::encode() const {
    return fmt::format("{} {} {} {}", boot, pid, started, host);
}

Result<OwnerProcess> OwnerProcess::decode(std::string_view line) {
    OwnerProcess process;
    process.boot = cut(line, ' ');
    const auto pid = number_of(cut(line, ' '));
    const auto started = number_of(cut(line, ' '));
    if (!pid || !started || process.boot.empty()) {
        return Error(Errc::kProtocol,
                     "a rank does not say which process it is; use the same version of Weir on all "
                     "ranks");
    }
    process.pid = *pid;
    process.started = *started;
    process.host = line;
    return process;
}

/// What the thread that gives them shares with the owner.
struct FolderOwner::Signs {
    std::string path;
    std::string folder;
    uint64_t job = 0;
    milliseconds between{};
    std::mutex mutex;
    std::condition_variable changed;
    bool is_over = false;      ///< the thread is to end
    bool is_given_up = false;  ///< and to remove the file
    bool has_ended = false;    ///< it has

    /// `restores`: makes the file again if somebody has removed it.
    /// Errors: as FolderOwner::check()
    [[nodiscard]] Status check(bool restores) const {
        WEIR_ASSIGN(std::optional<Owner> owner, read_owner(path));
        // Of a folder that is gone, what is written there fails.
        if (!owner && (!restores || ::access(folder.c_str(), F_OK) != 0)) return {};
        if (!owner) {
            WEIR_ASSIGN(const Draft draft, Draft::write(folder, job, encode(job, 0, {})));
            WEIR_ASSIGN(const bool is_new, draft.link_to(path));
            if (is_new) return {};
            WEIR_ASSIGN(owner, read_owner(path));
        }
        if (!owner || owner->job == job) return {};
        return owned(folder, *owner);
    }

    void run() {
        bool was_lost = false;
        std::unique_lock lock(mutex);
        while (!changed.wait_for(lock, between, [&] { return is_over; })) {
            lock.unlock();
            const Status kept = check(false);
            if (kept) (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
            const bool is_lost = kept.code() == Errc::kRefused;
            if (is_lost && !std::exchange(was_lost, is_lost)) {
                log(LogLevel::kError, "this job writes no checkpoints any more: {}",
                    kept.error().text());
            }
            lock.lock();
        }
        if (is_given_up) {
            lock.unlock();
            if (check(false)) (void)::unlink(path.c_str());
            lock.lock();
        }
        has_ended = true;
        changed.notify_all();
    }
};

FolderOwner::FolderOwner(std::string folder, uint64_t job, const OwnerTimes& times)
    : folder_(std::move(folder)), job_(job), times_(times), signs_(std::make_shared<Signs>()) {
    signs_->path = path_of(folder_, kOwnerName);
    signs_->folder = folder_;
    signs_->job = job;
    signs_->between = times.between;
    thread_ = std::thread([signs = signs_] { signs->run(); });
}

FolderOwner::~FolderOwner() {
    constexpr std::chrono::seconds kPatience(3);
    bool has_ended = false;
    {
        std::unique_lock lock(signs_->mutex);
        signs_->is_over = true;
        signs_->changed.notify_all();
        has_ended = signs_->changed.wait_for(lock, kPatience, [&] { return signs_->has_ended; });
    }
    has_ended ? thread_.join() : thread_.detach();  // its disk hangs
}

Result<std::unique_ptr<FolderOwner>> FolderOwner::take(const std::string& folder, uint64_t job,
                                                       nanoseconds at_most,
                                                       const OwnerTimes& times) {
    const std::string path = path_of(folder, kOwnerName);
    const auto end = std::chrono::steady_clock::now() + at_most;
    const std::string text =
        encode(job, static_cast<uint64_t>(std::time(nullptr)), {OwnerProcess::here()});
    std::optional<Owner> first;
    for (;; std::this_thread::sleep_for(kLook)) {
        WEIR_ASSIGN(const Draft draft, Draft::write(folder, job, text));
        WEIR_ASSIGN(const bool is_new, draft.link_to(path));
        if (is_new) break;
        WEIR_ASSIGN(const std::optional<Owner> owner, read_owner(path));
        if (!owner) continue;  // it has just been given up
        if (is_alive_here(*owner)) return owned(folder, *owner);
        if (have_ended(*owner) || draft.written() - owner->touched > times.gone) {
            WEIR_ASSIGN(const bool is_taken, take_over(draft, path, *owner, times));
            if (is_taken) break;
            if (std::chrono::steady_clock::now() >= end) return owned(folder, *owner);
            continue;
        }
        if (!first) {
            first = owner;
            log(LogLevel::kInfo,
                "{}: waiting for a sign of life of {}, whose last one came {} s ago; without one, "
                "the folder is taken over when it is {} s old",
                folder, text_of(*owner),
                std::chrono::duration_cast<std::chrono::seconds>(draft.written() - owner->touched)
                    .count(),
                std::chrono::duration_cast<std::chrono::seconds>(times.gone).count());
        }
        const bool has_given_sign = first->job != owner->job || first->touched != owner->touched;
        if (has_given_sign || std::chrono::steady_clock::now() >= end) return owned(folder, *owner);
    }
    return std::make_unique<FolderOwner>(folder, job, times);
}

Status FolderOwner::set_processes(const std::vector<OwnerProcess>& processes) {
    WEIR_TRY(check());
    const std::string text = encode(job_, static_cast<uint64_t>(std::time(nullptr)), processes);
    WEIR_ASSIGN(const Draft draft, Draft::write(folder_, job_, text));
    return draft.replace(path_of(folder_, kOwnerName));
}

Status FolderOwner::check() const {
    return signs_->check(true);
}

void FolderOwner::give_up() {
    const std::lock_guard lock(signs_->mutex);
    signs_->is_given_up = true;
}

Result<std::string> owner_of(const std::string& folder, const OwnerTimes& times) {
    WEIR_ASSIGN(const std::optional<Owner> owner, read_owner(path_of(folder, kOwnerName)));
    if (!owner || have_ended(*owner)) return std::string();
    const nanoseconds now = std::chrono::system_clock::now().time_since_epoch();
    // A host's clock may differ from that of whoever keeps the files by as much.
    constexpr std::chrono::minutes kSkew(2);
    if (!is_alive_here(*owner) && now - owner->touched > times.gone + kSkew) return std::string();
    return text_of(*owner);
}

}  // namespace weir::checkpoint
