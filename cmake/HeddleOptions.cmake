# Compiler options shared by every target, ccache when it is there, sanitizers.

find_program(HEDDLE_CCACHE ccache)
if(HEDDLE_CCACHE)
  # Finds objects that another checkout has compiled; compares precompiled headers
  # by content.
  set(CMAKE_C_COMPILER_LAUNCHER
      env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${HEDDLE_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_C_COMPILER_LAUNCHER})
endif()

# CMake's default, -O3, takes a third more compile time than -O2, and does not make
# the compiler faster.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")

# GCC's headers use deprecated declarations themselves.
add_compile_options(-Wall -Wextra -Wno-unused-parameter
                    -Wno-deprecated-declarations)

if(HEDDLE_SANITIZE)
  add_compile_options(-fsanitize=${HEDDLE_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HEDDLE_SANITIZE})
endif()
