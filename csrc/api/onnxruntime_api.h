// The part of ONNX Runtime's C ABI that this library uses.
//
// ONNX Runtime returns its functions as a table of pointers. A published version of the table never changes: later
// versions append to it, and a library provides the tables of all earlier versions. So it is sufficient to declare the
// needed members and their indexes. This library builds without ONNX Runtime's headers and runs with any release since
// 1.5, whose table (version 5) is the first with all needed members. ONNX Runtime itself asserts these indexes: 101 is
// the last of version 1, 126 of version 4, 149 of version 5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#if defined(_WIN32)
#define ASR_ORT_CALL __stdcall
#else
#define ASR_ORT_CALL
#endif

namespace asr_stream::ort {

inline constexpr std::uint32_t kApiVersion = 5;

// Opaque types.
struct Status;
struct Env;
struct SessionOptions;
struct Session;
struct RunOptions;
struct Value;
struct Allocator;
struct MemoryInfo;
struct TypeInfo;
struct TensorInfo;

enum LoggingLevel { kLogFatal = 4 };
enum ElementType { kFloat = 1, kInt64 = 7 };
enum AllocatorType { kDeviceAllocator = 0 };
enum MemoryType { kDefaultMemory = 0 };

using Logger = void(ASR_ORT_CALL*)(void* param, LoggingLevel severity, const char* category, const char* log_id,
                                   const char* code_location, const char* message);

// A null Status means success. The names are those of ONNX Runtime.
struct Api {
  template <typename... Arguments>
  using Function = Status*(ASR_ORT_CALL*)(Arguments...);
  template <typename T>
  using Release = void(ASR_ORT_CALL*)(T*);
  using Unused = void*;

  Unused unused_0[2];
  const char*(ASR_ORT_CALL* GetErrorMessage)(const Status*);
  Unused unused_3;
  Function<Logger, void*, LoggingLevel, const char*, Env**> CreateEnvWithCustomLogger;
  Unused unused_5[3];
  Function<const Env*, const void*, std::size_t, const SessionOptions*, Session**> CreateSessionFromArray;
  Function<Session*, const RunOptions*, const char* const*, const Value* const*, std::size_t, const char* const*,
           std::size_t, Value**>
      Run;
  Function<SessionOptions**> CreateSessionOptions;
  Unused unused_11[6];
  Function<SessionOptions*> DisableMemPattern;
  Unused unused_18[4];
  Function<SessionOptions*, int> SetSessionLogSeverityLevel;
  Unused unused_23;
  Function<SessionOptions*, int> SetIntraOpNumThreads;
  Function<SessionOptions*, int> SetInterOpNumThreads;
  Unused unused_26[4];
  Function<const Session*, std::size_t*> SessionGetInputCount;
  Function<const Session*, std::size_t*> SessionGetOutputCount;
  Unused unused_32;
  Function<const Session*, std::size_t, TypeInfo**> SessionGetInputTypeInfo;
  Function<const Session*, std::size_t, TypeInfo**> SessionGetOutputTypeInfo;
  Unused unused_35;
  Function<const Session*, std::size_t, Allocator*, char**> SessionGetInputName;
  Function<const Session*, std::size_t, Allocator*, char**> SessionGetOutputName;
  Unused unused_38[10];
  Function<Allocator*, const std::int64_t*, std::size_t, ElementType, Value**> CreateTensorAsOrtValue;
  Function<const MemoryInfo*, void*, std::size_t, const std::int64_t*, std::size_t, ElementType, Value**>
      CreateTensorWithDataAsOrtValue;
  Unused unused_50;
  Function<Value*, void**> GetTensorMutableData;
  Unused unused_52[3];
  Function<const TypeInfo*, const TensorInfo**> CastTypeInfoToTensorInfo;
  Unused unused_56[4];
  Function<const TensorInfo*, ElementType*> GetTensorElementType;
  Function<const TensorInfo*, std::size_t*> GetDimensionsCount;
  Function<const TensorInfo*, std::int64_t*, std::size_t> GetDimensions;
  Unused unused_63[2];
  Function<const Value*, TensorInfo**> GetTensorTypeAndShape;
  Unused unused_66[3];
  Function<AllocatorType, MemoryType, MemoryInfo**> CreateCpuMemoryInfo;
  Unused unused_70[6];
  Function<Allocator*, void*> AllocatorFree;
  Unused unused_77;
  Function<Allocator**> GetAllocatorWithDefaultOptions;
  Unused unused_79[14];
  Release<Status> ReleaseStatus;
  Release<MemoryInfo> ReleaseMemoryInfo;
  Release<Session> ReleaseSession;
  Release<Value> ReleaseValue;
  Unused unused_97;
  Release<TypeInfo> ReleaseTypeInfo;
  Release<TensorInfo> ReleaseTensorTypeAndShapeInfo;
  Release<SessionOptions> ReleaseSessionOptions;
  Unused unused_101[29];
  Function<SessionOptions*, const char*, const char*> AddSessionConfigEntry;
};

static_assert(offsetof(Api, DisableMemPattern) == 17 * sizeof(void*));
static_assert(offsetof(Api, CreateTensorWithDataAsOrtValue) == 49 * sizeof(void*));
static_assert(offsetof(Api, GetAllocatorWithDefaultOptions) == 78 * sizeof(void*));
static_assert(offsetof(Api, ReleaseSessionOptions) == 100 * sizeof(void*));
static_assert(offsetof(Api, AddSessionConfigEntry) == 130 * sizeof(void*));

// Released by its destructor.
template <typename T>
using Owned = std::unique_ptr<T, Api::Release<T>>;

struct ApiBase {
  const Api*(ASR_ORT_CALL* GetApi)(std::uint32_t version);
  const char*(ASR_ORT_CALL* GetVersionString)();
};

}  // namespace asr_stream::ort
