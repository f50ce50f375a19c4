// SPDX-License-Identifier: Apache-2.0
/// \file
/// Files that are plugins, or ought to be, and what processes tell each other of them.
#include "lib/store/plugins/plugin.h"

#include <fstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

using namespace weir;

const std::string kPlugins = WEIR_TEST_PLUGINS;

std::string path_of(const std::string& name) {
    return kPlugins + "/" + name + ".so";
}

std::string why_not_loaded(const std::string& path) {
    RuleRegistry rules = RuleRegistry::with_builtin_rules();
    const Result<Plugin> loaded = load_plugin(path, rules);
    return loaded ? "it is loaded" : loaded.error().message();
}

bool text_has(const std::string& text, std::string_view part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
    return text.find(part) != std::string::npos;
}

/// A folder of the test's own.
struct PluginFolder {
    PluginFolder() { REQUIRE(::mkdtemp(path) != nullptr); }

    ~PluginFolder() {
        for (const std::string& file : files)
            ::unlink(file.c_str());
        ::rmdir(path);
    }

    PluginFolder(const PluginFolder&) = delete;
    PluginFolder& operator=(const PluginFolder&) = delete;

    std::string write(const std::string& name, const std::string& content) {
        files.push_back(std::string(path) + "/" + name);
        std::ofstream(files.back()) << content;
        return files.back();
    }

    char path[32] = "/tmp/weir-plugin-test.XXXXXX";
    std::vector<std::string> files;
};

PluginList list_of(std::vector<PluginId> plugins) {
    return {std::move(plugins)};
}

}  // namespace

TEST_SUITE("plugin") {
    TEST_CASE("a plugin brings its rule, and can be loaded twice") {
        for (int i = 0; i < 2; ++i) {
            RuleRegistry rules = RuleRegistry::with_builtin_rules();
            const Result<Plugin> plugin = load_plugin(path_of("sound"), rules);
            REQUIRE_MESSAGE(plugin, (plugin ? "" : plugin.error().message()));
            CHECK(plugin->is.name == "sound.so");
            CHECK(plugin->rules == std::vector<std::string>{"times"});
            const Result<const RuleEntry*> rule = rules.find("times");
            REQUIRE(rule);
            CHECK((*rule)->version == 3);
            CHECK((*rule)->wants_keys);
            CHECK((*rule)->supports(ValueType::kFloat32));
            CHECK_FALSE((*rule)->supports(ValueType::kFloat64));
            CHECK((*rule)->parameters[0].name == std::string_view("factor"));
            RuleRegistry again = RuleRegistry::with_builtin_rules();
            CHECK(load_plugin(path_of("sound"), again)->is == plugin->is);
            RuleRegistry others = RuleRegistry::with_builtin_rules();
            const Result<Plugin> other = load_plugin(path_of("other_content"), others);
            REQUIRE(other);
            CHECK(other->is.content != plugin->is.content);
            CHECK(other->is.rules == plugin->is.rules);
        }
    }

    TEST_CASE("a plugin brings its codec") {
        RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const Result<Plugin> plugin = load_plugin(path_of("codec"), rules);
        REQUIRE_MESSAGE(plugin, (plugin ? "" : plugin.error().message()));
        CHECK(plugin->rules.empty());
        CHECK(plugin->codecs == std::vector<std::string>{"cut"});
        const Result<const CodecEntry*> found = rules.find_codec("cut");
        REQUIRE(found);
        CHECK((*found)->version == 5);
        const ValueCodec& codec = *(*found)->codec;
        CHECK(codec.takes(ValueType::kFloat64));
        CHECK_FALSE(codec.takes(ValueType::kInt32));
        CHECK_FALSE(codec.takes(ValueType::kBFloat16));
        std::vector<std::byte> values(16), body(16), back(16, std::byte{7});
        values[5] = std::byte{1};
        CHECK(codec.encode(ValueType::kFloat32, values, body) == 6U);
        CHECK(codec.decode(ValueType::kFloat32, std::span(body).first(6), back));
        CHECK(back == values);
        CHECK(codec.decode(ValueType::kFloat32, body, std::span(back).first(8)).code() ==
              Errc::kProtocol);
        values[15] = std::byte{1};
        CHECK_FALSE(codec.encode(ValueType::kFloat32, values, body));
    }

    TEST_CASE("a plugin brings its functions") {
        RuleRegistry rules = RuleRegistry::with_builtin_rules();
        const Result<Plugin> plugin = load_plugin(path_of("functions"), rules);
        REQUIRE_MESSAGE(plugin, (plugin ? "" : plugin.error().message()));
        CHECK(plugin->functions == std::vector<std::string>{"add_some", "below"});
        const FunctionEntry& adds = **rules.find_function("add_some");
        CHECK(adds.changes);
        CHECK(adds.version == 7);
        CHECK(adds.supports(ValueType::kFloat64));
        CHECK_FALSE(adds.supports(ValueType::kFloat32));
        CHECK(*adds.all_numbers({}) == std::vector<double>{2});
        const std::vector<double> much = {101};
        CHECK(text_has(adds.all_numbers(much).error().message(), "too much"));
        std::vector<double> y = {1, 2, 3, 4};
        std::vector<double> x = {5, 6, 7, 8};
        const std::vector<uint64_t> keys = {30, 9};
        const std::vector<double> by = {0.5};
        const RuleParameters parameters;
        FunctionRows<std::byte> rows{.values = reinterpret_cast<std::byte*>(y.data()),
                                     .with = {reinterpret_cast<const std::byte*>(x.data())},
                                     .row_count = 2,
                                     .width = 2,
                                     .keys = keys.data(),
                                     .numbers = by,
                                     .parameters = &parameters};
        FunctionResult result;
        const auto of_doubles = static_cast<size_t>(ValueType::kFloat64);
        adds.runs[of_doubles](rows, result);
        CHECK(y == std::vector<double>{3.5, 5, 6.5, 8});
        x[0] = -1;
        CHECK_THROWS_WITH(adds.runs[of_doubles](rows, result), "a negative one");

        const FunctionEntry& reads = **rules.find_function("below");
        CHECK_FALSE(reads.changes);
        CHECK(reads.wants_keys);
        const std::vector<double> bound = {7};
        rows.numbers = bound;
        reads.begin(bound, result);
        reads.runs[of_doubles](rows, result);
        CHECK(result.numbers == std::vector<double>{6.5, 30});
        FunctionResult other;
        other.numbers = {6, 31};
        reads.put_together(result, other, bound);
        CHECK(result.numbers == std::vector<double>{6.5, 31});
    }

    TEST_CASE("what is wrong with a file is named, with the file and what to do") {
        PluginFolder folder;
        const auto names = [](const std::string& file, std::string_view why) {
            return text_has(why_not_loaded(file), file.substr(file.rfind('/') + 1)) &&
                   text_has(why_not_loaded(file), why);
        };
        CHECK(names(path_of("missing"), "it cannot be found; name a file of this host"));
        CHECK(names(kPlugins, "it is a folder"));
        CHECK(names("/dev/null", "it is no regular file"));
        CHECK(names(folder.write("empty.so", ""), "it is no shared object (ELF)"));
        CHECK(names(folder.write("script.py", "#!/usr/bin/python3\n"),
                    "it is no shared object (ELF); build one by `cc -shared -fPIC`"));
        CHECK(names(folder.write("cut.so", "\177ELF and nothing else"), "it cannot be loaded: "));
        CHECK(names(folder.write(std::string(97, 'a'), "\177ELF"), "1 to 96 bytes"));
        CHECK(names(path_of("undefined"), "is_nowhere"));
        CHECK(names(path_of("undefined"), "it cannot be loaded: "));
        CHECK(names(path_of("no_symbol"), "it does not export weir_plugin_v1"));
        CHECK(names(path_of("abi_2"),
                    "it was made for version 2 of weir_plugin.h, and this Weir "
                    "loads version 1"));
        CHECK(names(path_of("refuses"), "it refuses to be loaded: this host?has no GPU"));
        CHECK(names(path_of("refuses_silently"),
                    "it refuses to be loaded: weir_plugin_v1() returned 3"));
        CHECK(names(path_of("throws"), "weir_plugin_v1() threw: no licence"));
        CHECK(names(path_of("no_rules"), "it registers no rule, no function and no codec"));
        CHECK(names(path_of("null_rule"), "its rule is NULL"));
        CHECK(names(path_of("bad_rule"), "its rule 'times' has no function `update`"));
        CHECK(names(path_of("rule_throws"), "a function of its rule threw: no state today"));
        CHECK(names(path_of("bad_codec"),
                    "its codec 'cut' has no function `encode`, or none for `decode`"));
        CHECK(names(path_of("bad_function"),
                    "its function 'add_some' reads 5 other tables; 4 at most"));
        CHECK(names(path_of("taken"), "update rule 'adam' is registered already"));
    }

    TEST_CASE("two plugins with a rule of the same name, or of the same file name, are refused") {
        const auto why = [](const std::vector<std::string>& paths) {
            RuleRegistry rules = RuleRegistry::with_builtin_rules();
            const auto loaded = load_plugins(paths, rules);
            return loaded ? "they are loaded" : loaded.error().message();
        };
        CHECK(why({path_of("sound")}) == "they are loaded");
        text_has(why({path_of("sound"), path_of("same_rule")}),
                 "same_rule.so: update rule 'times' is registered already");
        text_has(why({path_of("sound"), path_of("sound")}), "is named, too, and has the same name");
        text_has(why(std::vector<std::string>(17, path_of("sound"))),
                 "17 plugins are more than the 16");
    }

    TEST_CASE("paths are split at colons") {
        using Paths = std::vector<std::string>;
        CHECK(split_plugin_paths("").empty());
        CHECK(split_plugin_paths("a.so") == Paths{"a.so"});
        CHECK(split_plugin_paths("/x/a.so:b.so") == Paths{"/x/a.so", "b.so"});
        CHECK(split_plugin_paths(":a.so::b.so:") == Paths{"a.so", "b.so"});
        CHECK(split_plugin_paths(join_plugin_paths(Paths{"a", "b", "c"})) == Paths{"a", "b", "c"});
    }

    TEST_CASE("lists of plugins travel, and what cannot be one is refused") {
        PluginList full;
        for (size_t i = 0; i < PluginList::kCountMax; ++i)
            full.plugins.push_back({std::string(PluginId::kNameBytesMax, 'a'), i, ~i});
        for (const PluginList& list :
             {PluginList(), list_of({{"a.so", 1, 2}, {"b.so", 3, 4}}), full}) {
            const std::string bytes = list.encode();
            CHECK(bytes.size() <= PluginList::kBytesMax);
            const auto back = PluginList::decode(bytes);
            REQUIRE(back);
            CHECK(back->plugins == list.plugins);
            for (size_t cut = 0; cut < bytes.size(); ++cut)
                CHECK_FALSE(PluginList::decode(std::string_view(bytes).substr(0, cut)));
            CHECK_FALSE(PluginList::decode(bytes + 'x'));
        }
        PluginList more = full;
        more.plugins.push_back({"b", 1, 1});
        CHECK_FALSE(PluginList::decode(more.encode()));
        CHECK_FALSE(PluginList::decode(list_of({{"\x1b[31m", 1, 1}}).encode()));
        CHECK_FALSE(PluginList::decode(list_of({{"", 1, 1}}).encode()));
    }

    TEST_CASE("the first difference of two lists is told from the side that lacks a file") {
        const PluginList one = list_of({{"a.so", 1, 2}});
        const PluginList two = list_of({{"b.so", 3, 4}, {"a.so", 1, 2}});
        CHECK(one.difference("rank 1", one, "rank 0").empty());
        CHECK(
            two.difference("rank 1", list_of({{"a.so", 1, 2}, {"b.so", 3, 4}}), "rank 0").empty());
        CHECK(one.difference("rank 1", two, "rank 0") ==
              "rank 1 lacks the plugin b.so, which rank 0 has loaded: name the same files in "
              "`plugins` (WEIR_PLUGINS) of all processes with servers");
        text_has(two.difference("rank 1", one, "rank 0"),
                 "rank 0 lacks the plugin b.so, which rank 1");
        text_has(
            one.difference("rank 1", list_of({{"a.so", 9, 2}}), "rank 0"),
            "the plugin a.so of rank 1 is another file than that of rank 0: their bytes have the "
            "hashes 0000000000000001 and 0000000000000009");
        text_has(one.difference("rank 1", list_of({{"a.so", 1, 9}}), "rank 0"),
                 "registers other rules");
    }
}
