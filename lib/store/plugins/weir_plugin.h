// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// What a plugin and Weir know of each other, in C: a plugin is a shared object with update rules, functions and codecs,
/// which processes load by its path. It needs this header alone, is written in C99 or later, or in any language
/// that makes C functions, and exports one function:
/// ```c
/// #include <weir/weir_plugin.h>
///
/// static int update(struct weir_rows* rows, void* user) {
///     (void)user;
///     for (size_t r = 0; r < rows->row_count; ++r) {
///         float* w = (float*)weir_values(rows, r);
///         const float* g = (const float*)weir_pushed(rows, r);
///         for (uint32_t i = 0; i < rows->width; ++i)
///             w[i] -= (float)rows->parameters[0] * g[i];
///     }
///     return 0;
/// }
///
/// WEIR_PLUGIN_EXPORT int weir_plugin_v1(const struct weir_registrar* weir) {
///     static const struct weir_parameter parameters[] = {{"rate", 0, 0}};
///     const struct weir_rule rule = {.size = sizeof rule,
///                                    .name = "my_sgd",
///                                    .types = WEIR_TYPE(WEIR_FLOAT32),
///                                    .parameters = parameters,
///                                    .parameter_count = 1,
///                                    .update = update};
///     return weir->add_rule(weir, &rule);
/// }
/// ```
/// Structs begin with their size. Later versions of this header add fields at their ends, which are zero
/// unless a plugin sets them: so a plugin goes on to load, until the number in weir_plugin_v1 changes.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// NOLINTBEGIN(readability-identifier-naming,modernize-use-nullptr): C

/** The number in the name of weir_plugin_v1. */
#define WEIR_PLUGIN_ABI 1

#define WEIR_PLUGIN_EXPORT __attribute__((visibility("default")))

/** The type of a table's values. */
enum weir_type {
    WEIR_FLOAT32 = 0,
    WEIR_FLOAT64 = 1,
    WEIR_INT32 = 2,
    WEIR_INT64 = 3,
    WEIR_UINT32 = 4,
    WEIR_UINT64 = 5,
    WEIR_BFLOAT16 = 6, /**< of values that a codec gets; rules get floats */
    WEIR_FLOAT16 = 7   /**< the same */
};

/** For weir_rule::types and weir_codec::types. */
#define WEIR_TYPE(type) (UINT32_C(1) << (type))
#define WEIR_TYPES_FLOATING (WEIR_TYPE(WEIR_FLOAT32) | WEIR_TYPE(WEIR_FLOAT64))
/** Of a rule. */
#define WEIR_TYPES_ALL UINT32_C(0x3f)
/** Of a codec. */
#define WEIR_TYPES_OF_CODECS UINT32_C(0xff)

/** How the pushes of several workers to an iteration are combined before the rule sees them. */
enum weir_combine {
    WEIR_SUM = 0,
    WEIR_MAX = 1,
    WEIR_MIN = 2,
    WEIR_LAST = 3,
    WEIR_MEAN = 4 /**< the sum by the number of pushes to the row; floating types */
};

/** For weir_rule::flags. */
enum weir_rule_flag {
    WEIR_WANTS_KEYS = 1,     /**< rows come with their keys: its tables keep these by row */
    WEIR_BEGINS_AT_ZERO = 2, /**< state alone makes the values: tables must begin at 0 */
    WEIR_ROUNDS_AT_RANDOM =
        4 /**< values of bf16 and fp16, unless a table says how; else to nearest */
};

/** The most of a rule's parameters, and of its arguments. */
#define WEIR_NUMBERS_MAX 8
/** Of a name, without the 0 behind it. */
#define WEIR_NAME_BYTES_MAX 64
/** Of the values of a push, for each value of the table. */
#define WEIR_PUSHED_VALUES_MAX 1024
/** Of the state of a row. */
#define WEIR_STATE_BYTES_MAX (UINT32_C(1) << 30)

/** A number that a table gives its rule, finite and greater than 0, and the same as long as it lives. */
struct weir_parameter {
    const char* name;
    uint32_t may_be_zero; /**< 1: it may be 0 */
    uint32_t below_one;   /**< 1: it must be less than 1 */
};

/** A number that a push may bring. If it does not, it is the table's parameter of that name; without such
    a parameter, `otherwise`. It is finite, and 0 or greater unless may_be_negative is 1. */
struct weir_argument {
    const char* name;
    double otherwise;
    uint32_t may_be_negative;
    uint32_t zero; /**< 0 */
};

/** Some rows of a table, for one call of weir_rule::update, which changes the rows, and of this struct no
    more than failed_row. Row r begins r strides behind the first one; values, state and what was pushed
    never overlap. */
struct weir_rows {
    size_t size;         /**< of this struct, as Weir knows it */
    uint32_t value_type; /**< enum weir_type; of values, and of what was pushed */
    uint32_t width;      /**< values of a row */
    size_t row_count;
    void* values; /**< aligned as their type */
    size_t value_stride_bytes;
    void* state; /**< aligned as values; NULL if the rule keeps none */
    size_t state_stride_bytes;
    const void* pushed; /**< weir_rule::pushed_values for each value */
    size_t pushed_stride_bytes;
    const uint64_t* keys;     /**< of the rows; NULL unless the rule has WEIR_WANTS_KEYS */
    const double* parameters; /**< WEIR_NUMBERS_MAX; those without a name are 0 */
    const double* arguments;  /**< the same: of the push, or of the iteration */
    /** 64 random bits, that never come again: backups get values, and do not run the rule. */
    uint64_t (*random)(void* random_state);
    void* random_state;
    char* error; /**< where to say what is wrong, before update() returns an error */
    size_t error_bytes_max;
    size_t failed_row; /**< for that: which of the rows */
};

/** An update rule. Functions get `user` as it is here. They run in the threads of servers, at the same time
    for different rows, and must touch nothing but their arguments. No exception may leave them. Texts and
    arrays are copied by add_rule(); functions, `user`, and the texts that check() returns must stay. */
struct weir_rule {
    size_t size;            /**< sizeof(struct weir_rule); all else that is not set is 0 */
    const char* name;       /**< by which tables ask for it; no built-in rule has it */
    uint32_t version;       /**< the author's: raised with each change of what it does */
    uint32_t types;         /**< WEIR_TYPE() of each that it can update */
    uint32_t pushed_values; /**< that a push brings for each value of the table; 0 means 1 */
    uint32_t combine;       /**< enum weir_combine */
    uint32_t flags;         /**< enum weir_rule_flag */
    uint32_t zero;          /**< 0 */
    const struct weir_parameter* parameters;
    size_t parameter_count;
    const struct weir_argument* arguments;
    size_t argument_count;
    void* user;
    /** Of a row; always the same for the same arguments. NULL: it keeps no state. Weir rounds up to the size
        of a value. */
    size_t (*state_bytes)(uint32_t value_type, uint32_t width, void* user);
    /** NULL, or what is wrong with a table's parameters, beside what weir_parameter says. May be NULL. */
    const char* (*check)(const double* parameters, uint32_t width, void* user);
    /** Writes the state with which each row begins over zeros. NULL: it begins as zeros. */
    void (*initial_state)(void* state, uint32_t value_type, uint32_t width,
                          const double* parameters, void* user);
    /** Updates the rows. Not 0: it could not, for the reason in rows->error; the job ends with that, because
        some rows may be changed, and the push would fail elsewhere, too. */
    int (*update)(struct weir_rows* rows, void* user);
};

/** A lossless codec for values that travel, which tables name. Functions get `user` as it is here; they run in
    threads of workers and servers, several at once, touch nothing but their arguments, and give back control
    soon. No exception may leave them. The name is copied by add_codec(). */
struct weir_codec {
    size_t size;      /**< sizeof(struct weir_codec); all else that is not set is 0 */
    const char* name; /**< by which tables ask for it */
    uint32_t version; /**< the author's: raised with each change of what bodies are */
    uint32_t types;   /**< WEIR_TYPE() of each that it takes */
    void* user;
    /** Encodes values into `body`, which has room for as many bytes as they are, and returns how many it has
        used. More than that: the values travel as they are. */
    size_t (*encode)(uint32_t value_type, const void* values, size_t value_count, void* body,
                     void* user);
    /** Fills all values from a body that somebody sent: trust no byte of it. Not 0: it is no body of so many
        values. */
    int (*decode)(uint32_t value_type, const void* body, size_t body_bytes, void* values,
                  size_t value_count, void* user);
};

/** A number that the call of a function brings. */
struct weir_function_number {
    const char* name;
    double otherwise;         /**< if a call does not bring it; NaN: each call must */
    uint32_t may_be_infinite; /**< 1: it may be; else it is finite */
    uint32_t zero;            /**< 0 */
};

/** The most of a function's numbers, of other tables that it reads, and of numbers that it finds. */
#define WEIR_FUNCTION_NUMBERS_MAX 64
#define WEIR_FUNCTION_TABLES_MAX 4
#define WEIR_FUNCTION_RESULTS_MAX 512

/** Some rows, side by side without a gap, for one call of weir_function::run. */
struct weir_function_rows {
    size_t size;         /**< of this struct, as Weir knows it */
    uint32_t value_type; /**< enum weir_type */
    uint32_t width;      /**< values of a row */
    size_t row_count;
    void* values;                               /**< of the table that is called */
    const void* with[WEIR_FUNCTION_TABLES_MAX]; /**< of the others: the rows of the same keys */
    const uint64_t* keys;     /**< of the rows; NULL unless the function has WEIR_WANTS_KEYS */
    const double* numbers;    /**< all that it has, of the call or `otherwise` */
    const double* parameters; /**< of the table's rule: WEIR_NUMBERS_MAX */
    double* results;          /**< of one that reads: it puts in what it finds in these rows */
    char* error;              /**< where to say what is wrong, before run() returns an error */
    size_t error_bytes_max;
};

/** A function that runs on servers, on rows where they lie: one that changes them, if result_count is 0, or one that
    reads them. Else as weir_rule. */
struct weir_function {
    size_t size;      /**< sizeof(struct weir_function); all else that is not set is 0 */
    const char* name; /**< by which programs call it; no function of Weir has it */
    uint32_t version; /**< the author's: raised with each change of what it does */
    uint32_t types;   /**< WEIR_TYPE() of each that it takes */
    uint32_t flags;   /**< WEIR_WANTS_KEYS */
    uint32_t tables;  /**< others, that it reads */
    const struct weir_function_number* numbers;
    size_t number_count;
    uint32_t result_count; /**< numbers that it finds */
    uint32_t
        result_combine; /**< WEIR_SUM, WEIR_MAX, WEIR_MIN: of those of other rows. They begin as 0, or infinite */
    double
        cost; /**< of a value, in those that a sum of two tables takes; 0 means 1. What it costs more holds up pushes */
    void* user;
    /** NULL, or what is wrong with the numbers of a call. May be NULL. */
    const char* (*check)(const double* numbers, void* user);
    /** Changes the rows, or reads them. Not 0: it could not, and the job ends with that, as weir_rule::update says. */
    int (*run)(struct weir_function_rows* rows, void* user);
};

/** What Weir gives to weir_plugin_v1. */
struct weir_registrar {
    size_t size;  /**< of this struct, as Weir knows it */
    uint32_t abi; /**< WEIR_PLUGIN_ABI, as Weir knows it */
    uint32_t zero;
    void* loading; /**< Weir's own */
    /** 0, or the plugin is refused for what is wrong with the rule. */
    int (*add_rule)(const struct weir_registrar* weir, const struct weir_rule* rule);
    /** For a plugin that returns an error: why. */
    void (*say)(const struct weir_registrar* weir, const char* why);
    /** As add_rule(). A Weir from before codecs has a `size` that ends before this. */
    int (*add_codec)(const struct weir_registrar* weir, const struct weir_codec* codec);
    /** As add_rule(). A Weir from before functions has a `size` that ends before this. */
    int (*add_function)(const struct weir_registrar* weir, const struct weir_function* function);
};

/** What a plugin exports. Not 0: it is refused. It may be called several times in a process. */
WEIR_PLUGIN_EXPORT int weir_plugin_v1(const struct weir_registrar* weir);

static inline void* weir_values(const struct weir_rows* rows, size_t row) {
    return (char*)rows->values + row * rows->value_stride_bytes;
}

static inline void* weir_state(const struct weir_rows* rows, size_t row) {
    return rows->state == NULL ? NULL : (char*)rows->state + row * rows->state_stride_bytes;
}

static inline const void* weir_pushed(const struct weir_rows* rows, size_t row) {
    return (const char*)rows->pushed + row * rows->pushed_stride_bytes;
}

// NOLINTEND(readability-identifier-naming,modernize-use-nullptr)

#ifdef __cplusplus
}
#endif
