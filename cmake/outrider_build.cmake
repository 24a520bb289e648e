# Compiler settings and the three verbs every CMakeLists of this project uses:
#   outrider_module(NAME SOURCES ... DEPS ...)     a static library outrider_NAME under src/NAME
#   outrider_test(NAME SOURCES ... DEPS ...)       one GoogleTest program test_NAME under tests/NAME
#   outrider_provider(NAME SOURCES ... DEPS ...)   provider_NAME.so with one exported symbol

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

add_library(outrider_flags INTERFACE)
target_compile_options(outrider_flags INTERFACE -Wall -Wextra -Wshadow -Wno-psabi
  $<$<BOOL:${OUTRIDER_WERROR}>:-Werror>
  # The same bits in every build: no contraction that the source does not spell out.
  -ffp-contract=off
  # No path of the build machine in a binary.
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=
  # Unique symbols would pin a provider in memory after dlclose.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
target_include_directories(outrider_flags INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
find_package(Threads REQUIRED)
target_link_libraries(outrider_flags INTERFACE Threads::Threads ${CMAKE_DL_LIBS})
if(OUTRIDER_SANITIZE)
  target_compile_options(outrider_flags INTERFACE -fsanitize=${OUTRIDER_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(outrider_flags INTERFACE -fsanitize=${OUTRIDER_SANITIZE})
endif()

function(outrider_module name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_library(outrider_${name} STATIC ${A_SOURCES})
  target_link_libraries(outrider_${name} PUBLIC outrider_flags ${A_DEPS})
endfunction()

function(outrider_test name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(test_${name} ${A_SOURCES})
  target_link_libraries(test_${name} PRIVATE ${A_DEPS} outrider_flags GTest::gtest GTest::gtest_main)
  # Tests are compiled far more often than they are timed.
  target_compile_options(test_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_include_directories(test_${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(test_${name} PRIVATE
    OUTRIDER_SOURCE_DIR="${CMAKE_SOURCE_DIR}" OUTRIDER_BUILD_DIR="${CMAKE_BINARY_DIR}")
  add_test(NAME ${name} COMMAND test_${name})
endfunction()

function(outrider_provider name)
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_library(provider_${name} MODULE ${A_SOURCES})
  target_link_libraries(provider_${name} PRIVATE ${A_DEPS} outrider_flags)
  set_target_properties(provider_${name} PROPERTIES PREFIX "" SKIP_BUILD_RPATH OFF
    BUILD_RPATH "$ORIGIN" INSTALL_RPATH "$ORIGIN" BUILD_WITH_INSTALL_RPATH ON
    LINK_DEPENDS ${CMAKE_SOURCE_DIR}/cmake/provider.map)
  target_link_options(provider_${name} PRIVATE
    -Wl,--version-script=${CMAKE_SOURCE_DIR}/cmake/provider.map
    -Wl,--disable-new-dtags -Wl,--as-needed -Wl,-z,defs -Wl,--exclude-libs,ALL)
  if(OUTRIDER_SANITIZE)
    target_link_options(provider_${name} PRIVATE -Wl,-z,undefs)
  endif()
endfunction()
