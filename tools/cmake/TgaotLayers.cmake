# tg_layer(NAME DEPS...): the static library tg_NAME of all sources in the current folder and below. It links what stands before it
# in the order of the layers (compiler/README.md); tools/check.sh greps the include lines for the same order.
function(tg_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  if(NOT sources)
    add_library(tg_${name} INTERFACE)
    target_link_libraries(tg_${name} INTERFACE ${ARGN})
    return()
  endif()
  add_library(tg_${name} STATIC ${sources})
  target_link_libraries(tg_${name} PUBLIC ${ARGN})
  target_compile_options(tg_${name} PRIVATE ${TG_WARNINGS})
endfunction()

# tg_test(NAME [HOT] SOURCES... LINK LIBS...): one GoogleTest executable, known to ctest as NAME. What a test asks of the layers is
# optimized, the test's own code is not, which compiles in half the time, unless it is HOT: loops over millions of values.
function(tg_test name)
  cmake_parse_arguments(T "HOT" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE ${T_LINK} GTest::gtest GTest::gtest_main)
  target_compile_options(${name} PRIVATE ${TG_WARNINGS})
  if(NOT T_HOT)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O0>)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endfunction()

set(TG_WARNINGS -Wall -Wextra -Wno-missing-field-initializers $<$<BOOL:${TGAOT_WERROR}>:-Werror>)
option(TGAOT_WERROR "Warnings are errors" OFF)
