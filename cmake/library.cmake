# The library for apps: target asr_stream::asr_stream, its installation, CMake package and pkg-config file.
option(ASR_STREAM_SHARED "libasr_stream is a shared library; OFF: a static one" ON)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(type STATIC)
if(ASR_STREAM_SHARED)
  set(type SHARED)
endif()
file(GLOB api CONFIGURE_DEPENDS csrc/api/*.cc)
add_library(asr_stream ${type} ${api} $<TARGET_OBJECTS:asr_stream_core>)
add_library(asr_stream::asr_stream ALIAS asr_stream)
target_include_directories(asr_stream
  PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/csrc/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  PRIVATE csrc)
target_compile_definitions(asr_stream PRIVATE ASR_STREAM_BUILDING ASR_STREAM_VERSION="${PROJECT_VERSION}")
target_link_libraries(asr_stream PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
if(NOT ASR_STREAM_SHARED)
  target_compile_definitions(asr_stream PUBLIC ASR_STREAM_STATIC)
endif()
asr_stream_compile_options(asr_stream PUBLIC)
set(abi ${PROJECT_VERSION_MAJOR})
if(abi EQUAL 0)
  set(abi 0.${PROJECT_VERSION_MINOR})  # before 1.0, a minor version may break the ABI (asr_stream.h)
endif()
set_target_properties(asr_stream PROPERTIES
  CXX_VISIBILITY_PRESET hidden
  VISIBILITY_INLINES_HIDDEN ON
  VERSION ${PROJECT_VERSION}
  SOVERSION ${abi})

# Templates of the standard library are visible whatever the preset says, so what is exported is listed.
if(ASR_STREAM_SHARED AND UNIX)
  set(list ${CMAKE_CURRENT_SOURCE_DIR}/csrc/api/symbols.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} symbols)
  set(exports ${CMAKE_CURRENT_BINARY_DIR}/asr_stream.exports)
  if(APPLE)
    list(TRANSFORM symbols PREPEND "_")
    list(JOIN symbols "\n" text)
    file(WRITE ${exports} "${text}\n")
    target_link_options(asr_stream PRIVATE "LINKER:-exported_symbols_list,${exports}")
  else()
    list(JOIN symbols "; " text)
    file(WRITE ${exports} "{ global: ${text}; local: *; };\n")
    target_link_options(asr_stream PRIVATE "LINKER:--version-script=${exports}")
  endif()
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/asr_stream)
install(TARGETS asr_stream EXPORT asr_stream
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY csrc/include/asr_stream DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT asr_stream NAMESPACE asr_stream:: FILE asr_stream-targets.cmake DESTINATION ${package})
configure_package_config_file(cmake/asr_stream-config.cmake.in asr_stream-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(asr_stream-config-version.cmake COMPATIBILITY SameMinorVersion)
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(rpath "")  # an archive that is unpacked anywhere has its library found
if(ASR_STREAM_SHARED AND NOT WIN32)
  set(rpath " -Wl,-rpath,\${libdir}")
endif()
configure_file(cmake/asr_stream.pc.in asr_stream.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/asr_stream-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/asr_stream-config-version.cmake DESTINATION ${package})
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/asr_stream.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The archive of `make dist`, which has what the library needs but ONNX Runtime; as a part of another project, or
# installed by `cmake --install`, it is the library alone.
if(CMAKE_SOURCE_DIR STREQUAL PROJECT_SOURCE_DIR)
  set(share ${CMAKE_INSTALL_DATADIR}/asr_stream)
  set(extra COMPONENT archive EXCLUDE_FROM_ALL)
  install(FILES LICENSE asr/models/LICENSE.cmudict asr/models/tiny.int8.onnx asr/models/english.lm
    asr/models/english.neural.onnx asr/models/english.punctuation.onnx asr/models/tiny.int8.decoder.onnx
    asr/samples/sample.wav
    DESTINATION ${share} ${extra})
  install(FILES examples/c/README.md DESTINATION . ${extra})
  install(FILES examples/c/transcribe.c examples/c/wav.h examples/cpp/transcribe.cc DESTINATION ${share}/examples ${extra})
  string(TOLOWER ${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR} platform)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_PACKAGE_FILE_NAME libasr_stream-${PROJECT_VERSION}-${platform})
  set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
  set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
  set(CPACK_COMPONENTS_ALL Unspecified archive)
  set(CPACK_STRIP_FILES ON)
  include(CPack)
endif()
