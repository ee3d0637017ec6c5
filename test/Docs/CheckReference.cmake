# cmake -DCOMMITTED=DIR -DGENERATE=COMMAND -DSCRIPT=FILE -DOUT=DIR
#       -P CheckReference.cmake
# Fails when docs/reference is not what the .td files and Settings.def say.
file(REMOVE_RECURSE ${OUT})
file(MAKE_DIRECTORY ${OUT})
execute_process(COMMAND ${GENERATE} -DOUT=${OUT} -P ${SCRIPT}
                COMMAND_ERROR_IS_FATAL ANY)
file(GLOB made RELATIVE ${OUT} ${OUT}/*.md)
file(GLOB committed RELATIVE ${COMMITTED} ${COMMITTED}/*.md)
foreach(name ${made} ${committed})
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E compare_files ${OUT}/${name} ${COMMITTED}/${name}
    RESULT_VARIABLE differs OUTPUT_QUIET ERROR_QUIET)
  if(differs)
    message(SEND_ERROR "docs/reference/${name} is not up to date: "
                       "build the target heddle-docs")
  endif()
endforeach()
