# cmake -DTBLGEN=mlir-tblgen -DSOURCE=DIR -DMLIR_INCLUDE=DIR
#       -DSETTINGS=heddle-settings -DOUT=DIR -P GenerateReference.cmake
# Writes the reference of dialects, interfaces and passes from the .td files,
# that of settings from Settings.def, and that of attention layouts from their
# table of options.

set(note "<!-- Made by the target heddle-docs from .td files: edit those. -->\n")

# Runs mlir-tblgen on a .td file.
function(tblgen RESULT FILE)
  execute_process(
    COMMAND ${TBLGEN} ${ARGN} -I ${SOURCE} -I ${MLIR_INCLUDE} ${SOURCE}/${FILE}
    OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX REPLACE "^<!--[^\n]*-->\n" "" text "${text}")
  string(REPLACE "[TOC]\n\n" "" text "${text}")
  string(REGEX REPLACE "[ \t]+\n" "\n" text "${text}")
  set(${RESULT} "${text}" PARENT_SCOPE)
endfunction()

function(write_dialect NAME FILE)
  tblgen(text ${FILE} -gen-dialect-doc -dialect=${NAME})
  file(WRITE ${OUT}/${NAME}.md "${note}${text}")
endfunction()

write_dialect(nn dialects/NN/NNOps.td)
write_dialect(dist dialects/Dist/DistOps.td)
write_dialect(pipe dialects/Pipe/PipeDialect.td)
write_dialect(plan dialects/Plan/PlanOps.td)

tblgen(nn dialects/NN/NNInterfaces.td -gen-op-interface-docs)
tblgen(plan dialects/Plan/PlanInterfaces.td -gen-op-interface-docs)
file(WRITE ${OUT}/interfaces.md "${note}${nn}${plan}")

# The passes in the order of the phases.
set(passes "${note}# Passes\n")
foreach(folder Transforms/Import Transforms/Model Transforms/Train
        Transforms/Shard Transforms/Pipe Transforms/Spmd Transforms/Fuse
        Codegen/Common Codegen/GPU Codegen/CPU Transforms/Memory Transforms/Prove)
  tblgen(text include/heddle/${folder}/Passes.td -gen-pass-doc)
  string(APPEND passes "\n## lib/${folder}\n\n${text}")
endforeach()
file(WRITE ${OUT}/passes.md "${passes}")

execute_process(COMMAND ${SETTINGS} OUTPUT_VARIABLE text
                COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${OUT}/settings.md
     "<!-- Made by the target heddle-docs from Settings.def: edit that. -->\n"
     "${text}")

execute_process(COMMAND ${SETTINGS} layouts OUTPUT_VARIABLE text
                COMMAND_ERROR_IS_FATAL ANY)
file(WRITE ${OUT}/attention-layouts.md
     "<!-- Made by the target heddle-docs from lib/AttentionLayout/LayoutOptions.cpp: edit that. -->\n"
     "${text}")
