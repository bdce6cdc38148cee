/* models.h - the models, a line each; it is included with MODEL defined. */
MODEL(mlp)
MODEL(resnet18)
MODEL(resnet50)
MODEL(lstm)
MODEL(gpt2)
MODEL(vit)
MODEL(bert)
MODEL(llama)
