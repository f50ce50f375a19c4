// SPDX-License-Identifier: Apache-2.0
#include "lib/store/plugins/plugin.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming): xxhash reads it
#include <xxhash.h>

#include "lib/base/descriptor.h"
#include "lib/base/fnv.h"
#include "lib/base/printable.h"
#include "lib/base/printable_line.h"
#include "lib/store/plugins/plugin_codec.h"
#include "lib/store/plugins/plugin_function.h"
#include "lib/store/plugins/plugin_rule.h"
#include "lib/store/rules/rule_threw.h"

namespace weir {
namespace {

constexpr std::string_view kElf = "\177ELF";

Error refused_plugin(std::string_view path, std::string_view why) {
    return {Errc::kInvalidArgument, fmt::format("the plugin {}: {}", path, why)};
}

Error unread_plugin(std::string_view path, std::string_view what, int error) {
    return {Errc::kNotFound, fmt::format("the plugin {}: {}", path, what), error};
}

/// What dlerror() says.
std::string loader_text() {
    const char* const text = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc has one by thread
    return text == nullptr ? "the loader says nothing" : printable_line(text);
}

/// A path with a folder, however it was given: the loader would look for others in folders of its own.
Result<std::string> whole_path(const std::string& path) {
    const std::unique_ptr<char, decltype(&std::free)> whole(::realpath(path.c_str(), nullptr),
                                                            &std::free);
    if (whole == nullptr) {
        return unread_plugin(path,
                             "it cannot be found; name a file of this host, relative to the folder "
                             "where the program was started, or from /",
                             errno);
    }
    return std::string(whole.get());
}

/// Reads all of it.
Result<uint64_t> content_of(const std::string& path) {
    const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));

    struct stat status {};

    if (!file || ::fstat(file.get(), &status) != 0)
        return unread_plugin(path, "it cannot be read", errno);
    if (S_ISDIR(status.st_mode))
        return refused_plugin(path, "it is a folder; name the shared object");
    if (!S_ISREG(status.st_mode)) return refused_plugin(path, "it is no regular file");
    const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(),
                                                                         &XXH3_freeState);
    if (state == nullptr) throw std::bad_alloc();
    XXH3_64bits_reset(state.get());
    std::vector<char> some(size_t{64} << 10);
    bool is_first = true;
    for (;;) {
        const ssize_t count = ::read(file.get(), some.data(), some.size());
        if (count < 0 && errno == EINTR) continue;
        if (count < 0) return unread_plugin(path, "it cannot be read", errno);
        const std::string_view read(some.data(), static_cast<size_t>(count));
        if (std::exchange(is_first, false) && !read.starts_with(kElf)) {
            return refused_plugin(path,
                                  "it is no shared object (ELF); build one by `cc -shared -fPIC`");
        }
        if (count == 0) return XXH3_64bits_digest(state.get());
        XXH3_64bits_update(state.get(), read.data(), read.size());
    }
}

/// The function that a plugin exports; what else it has of this name says which version it was made for.
Result<void*> entry_of(void* object, const std::string& path) {
    if (void* const found = ::dlsym(object, "weir_plugin_v1")) return found;
    constexpr int kNewestLookedFor = 99;
    for (int abi = 0; abi <= kNewestLookedFor; ++abi) {
        if (::dlsym(object, fmt::format("weir_plugin_v{}", abi).c_str()) == nullptr) continue;
        return refused_plugin(
            path, fmt::format("it was made for version {} of weir_plugin.h, and this Weir loads "
                              "version {}: build it with the header of this version",
                              abi, WEIR_PLUGIN_ABI));
    }
    return refused_plugin(path,
                          "it does not export weir_plugin_v1, so it is no plugin; if it has that "
                          "function, declare it as weir_plugin.h does (WEIR_PLUGIN_EXPORT, in C++ "
                          "extern \"C\")");
}

/// What a plugin does while it is loaded; behind weir_registrar::loading.
struct PluginLoading {
    RuleRegistry& rules;
    std::shared_ptr<void> object;
    std::vector<std::string> names = {};
    std::vector<std::string> codecs = {};
    std::vector<std::string> functions = {};
    std::string facts = {};           ///< of all of them
    std::optional<Error> wrong = {};  ///< the first thing that is
    std::string why = {};             ///< as it says itself

    static PluginLoading& of(const weir_registrar* weir) {
        return *static_cast<PluginLoading*>(weir->loading);
    }

    /// `what`: it is, for messages.
    template <class Struct>
    int add(const Struct* one, std::string_view what) {
        try {
            const Status added =
                one == nullptr
                    ? Status(Error(Errc::kInvalidArgument, fmt::format("its {} is NULL", what)))
                    : add(*one);
            if (!added && !wrong) wrong = added.error();
            return added ? 0 : 1;
        } catch (...) {
            if (!wrong)
                wrong = Error(Errc::kInvalidArgument, fmt::format("a function of its {} threw: {}",
                                                                  what, text_of_exception()));
            return 1;
        }
    }

    Status add(const weir_rule& rule) {
        WEIR_ASSIGN(const RuleEntry entry, make_plugin_rule(rule, object));
        WEIR_TRY(rules.add(entry));
        names.push_back(entry.name);
        facts += entry.facts() + "\n";
        return {};
    }

    Status add(const weir_function& function) {
        WEIR_ASSIGN(FunctionEntry entry, make_plugin_function(function, object));
        functions.push_back(entry.name);
        facts += entry.facts() + "\n";
        return rules.add(std::move(entry));
    }

    Status add(const weir_codec& codec) {
        WEIR_ASSIGN(const CodecEntry entry, make_plugin_codec(codec, object));
        WEIR_TRY(rules.add(entry));
        codecs.push_back(entry.name);
        facts += entry.facts() + "\n";
        return {};
    }
};

int add_rule_of_plugin(const weir_registrar* weir, const weir_rule* rule) {
    return PluginLoading::of(weir).add(rule, "rule");
}

int add_function_of_plugin(const weir_registrar* weir, const weir_function* function) {
    return PluginLoading::of(weir).add(function, "function");
}

int add_codec_of_plugin(const weir_registrar* weir, const weir_codec* codec) {
    return PluginLoading::of(weir).add(codec, "codec");
}

void say_of_plugin(const weir_registrar* weir, const char* why) {
    if (why != nullptr) PluginLoading::of(weir).why = printable_line(why);
}

std::string name_of(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

Status register_rules(void* entry, PluginLoading& loading) {
    const auto enter = reinterpret_cast<decltype(&weir_plugin_v1)>(entry);
    const weir_registrar weir{.size = sizeof(weir_registrar),
                              .abi = WEIR_PLUGIN_ABI,
                              .zero = 0,
                              .loading = &loading,
                              .add_rule = &add_rule_of_plugin,
                              .say = &say_of_plugin,
                              .add_codec = &add_codec_of_plugin,
                              .add_function = &add_function_of_plugin};
    int refuses = 0;
    try {
        refuses = enter(&weir);
    } catch (...) {
        return Error(Errc::kInvalidArgument, "weir_plugin_v1() threw: " + text_of_exception());
    }
    if (loading.wrong) return *loading.wrong;
    if (refuses != 0) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("it refuses to be loaded: {}",
                        loading.why.empty() ? fmt::format("weir_plugin_v1() returned {}", refuses)
                                            : loading.why));
    }
    if (loading.names.empty() && loading.codecs.empty() && loading.functions.empty())
        return Error(Errc::kInvalidArgument, "it registers no rule, no function and no codec");
    return {};
}

}  // namespace

Result<Plugin> load_plugin(const std::string& path, RuleRegistry& rules) {
    WEIR_ASSIGN(const std::string whole, whole_path(path));
    Plugin plugin{
        .path = whole, .is = {.name = name_of(path)}, .rules = {}, .codecs = {}, .functions = {}};
    if (!is_printable_name(plugin.is.name) || plugin.is.name.size() > PluginId::kNameBytesMax)
        return refused_plugin(printable_line(path),
                              fmt::format("the name of the file must have 1 to {} bytes, and no "
                                          "control characters",
                                          PluginId::kNameBytesMax));
    WEIR_ASSIGN(plugin.is.content, content_of(whole));
    const std::shared_ptr<void> object(::dlopen(whole.c_str(), RTLD_NOW | RTLD_LOCAL), [](void* p) {
        if (p != nullptr) ::dlclose(p);
    });
    if (object == nullptr)
        return refused_plugin(path, fmt::format("it cannot be loaded: {}", loader_text()));
    WEIR_ASSIGN(void* const enter, entry_of(object.get(), path));
    PluginLoading loading{rules, object};
    if (const Status registered = register_rules(enter, loading); !registered)
        return refused_plugin(path, registered.error().text());
    plugin.rules = std::move(loading.names);
    plugin.codecs = std::move(loading.codecs);
    plugin.functions = std::move(loading.functions);
    plugin.is.rules = fnv1a(loading.facts);
    return plugin;
}

Result<std::vector<Plugin>> load_plugins(std::span<const std::string> paths, RuleRegistry& rules) {
    if (paths.size() > PluginList::kCountMax) {
        return Error(
            Errc::kInvalidArgument,
            fmt::format("{} plugins are more than the {} that a process loads; put several "
                        "rules, functions and codecs into one",
                        paths.size(), PluginList::kCountMax));
    }
    std::vector<Plugin> plugins;
    for (const std::string& path : paths) {
        for (const Plugin& other : plugins) {
            if (other.is.name != name_of(path)) continue;
            return refused_plugin(
                path, fmt::format("{} is named, too, and has the same name; name each file once, "
                                  "or rename one",
                                  other.path));
        }
        WEIR_ASSIGN(Plugin plugin, load_plugin(path, rules));
        plugins.push_back(std::move(plugin));
    }
    return plugins;
}

std::vector<std::string> split_plugin_paths(std::string_view text) {
    std::vector<std::string> paths;
    while (!text.empty()) {
        const size_t end = std::min(text.find(kPluginSeparator), text.size());
        if (end != 0) paths.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return paths;
}

std::string join_plugin_paths(std::span<const std::string> paths) {
    std::string text;
    for (const std::string& path : paths)
        text += (text.empty() ? "" : std::string(1, kPluginSeparator)) + path;
    return text;
}

}  // namespace weir
